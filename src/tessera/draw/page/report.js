// Shows the training run that stands as JSON in the page. Points were thinned before; here they are
// laid out, and all diagrams are read at one step. A live page asks its server for newer JSON.
(() => {
  let data = JSON.parse(document.getElementById('data').textContent);
  const $ = (id) => document.getElementById(id);
  let charts = [];
  let shown = null; // The step that is read; null: the last of each series.

  // ---- small helpers

  // Four digits, thousands apart: 2.134, 0.0003, 81,300.
  function number(value) {
    if (value === null) return 'no number';
    const size = Math.abs(value);
    if (size >= 1e9 || (size > 0 && size < 1e-4)) return value.toExponential(2).replace('e+', 'e');
    return value.toLocaleString('en-US', size >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 4 });
  }
  const withUnit = (value, unit) => (unit && value !== null ? `${number(value)} ${unit}` : number(value));
  const stepText = (value) => number(Math.round(value));

  // ---- axes

  function roundStep(length, most) {
    const rough = length / Math.max(1, most);
    const power = 10 ** Math.floor(Math.log10(rough));
    return power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  }

  function marksOf(low, high, step) {
    const marks = [];
    for (let i = Math.ceil(low / step - 1e-6); i * step <= high + 1e-6 * step; i += 1) marks.push(i * step || 0); // No -0.
    return marks;
  }

  const finite = (chart) => chart.data.series.flatMap(({ points }) => points.filter(([, y]) => y !== null));

  function rangeOf(values) {
    let [low, high] = [Infinity, -Infinity];
    for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
    if (low > high) return [0, 1];
    const room = low === 0 ? 1 : Math.abs(low) / 10;
    return low < high ? [low, high] : [low - room, high + room];
  }

  // Steps are the same in all diagrams.
  let [firstStep, lastStep] = [0, 1];
  function findSteps() {
    const allPoints = data.charts.flatMap(({ series }) => series.flatMap(({ points }) => points));
    [firstStep, lastStep] = rangeOf(allPoints.map(([x]) => x));
  }

  function scaleOf(chart) {
    const [least, greatest] = rangeOf(finite(chart).map(([, y]) => y));
    const apart = roundStep(greatest - least, Math.floor(chart.height / 45));
    const [low, high] = [Math.floor(least / apart + 1e-6) * apart, Math.ceil(greatest / apart - 1e-6) * apart];
    return { low, high, levels: marksOf(low, high, apart) };
  }

  const bottomOf = (chart) => chart.height - 22;
  const xOf = (chart, x) => chart.left + (x - firstStep) / (lastStep - firstStep) * (chart.width - chart.left - 12);
  const yOf = (chart, y) => 8 + (1 - (y - chart.scale.low) / (chart.scale.high - chart.scale.low)) * (bottomOf(chart) - 8);
  const stepAt = (chart, pixels) =>
    firstStep + (pixels - chart.left) / (chart.width - chart.left - 12) * (lastStep - firstStep);

  // ---- lines

  // Neighbours' mean, where there are enough points for noise to hide the way down.
  function smoothed(points) {
    const reach = Math.floor(points.length / 80);
    return points.map(([x], i) => {
      const near = points.slice(Math.max(0, i - reach), i + reach + 1).filter(([, y]) => y !== null);
      return [x, near.length ? near.reduce((sum, [, y]) => sum + y, 0) / near.length : null];
    });
  }

  function pathOf(chart, points) {
    let path = '';
    let drawing = false;
    for (const [x, y] of points) {
      if (y !== null) path += `${drawing ? 'L' : 'M'}${xOf(chart, x).toFixed(1)} ${yOf(chart, y).toFixed(1)}`;
      drawing = y !== null;
    }
    return path;
  }

  function drawSeries(chart, series, i) {
    const color = `var(--series-${i % 4})`;
    const line = (kind, points) => shape('path', { class: kind, stroke: color, d: pathOf(chart, points) });
    if (i > 0) {
      const dots = series.points.filter(([, y]) => y !== null)
        .map(([x, y]) => shape('circle', { class: 'dot', r: series.points.length > 60 ? 1.8 : 3.2, cx: xOf(chart, x), cy: yOf(chart, y), fill: color }));
      return [line('raw faint', series.points), ...dots];
    }
    if (series.points.length < 80) return [line('raw', series.points)];
    return [line('raw faint', series.points), line('smooth', smoothed(series.points))];
  }

  function drawAxes(chart) {
    const bottom = bottomOf(chart);
    const levels = chart.scale.levels.flatMap((level) => [
      shape('path', { class: 'grid', d: `M${chart.left} ${yOf(chart, level)}H${chart.width - 12}` }),
      shape('text', { class: 'end', x: chart.left - 6, y: yOf(chart, level) + 4 }, number(level))]);
    const apart = Math.max(1, roundStep(lastStep - firstStep, Math.floor((chart.width - chart.left) / 80)));
    const steps = marksOf(firstStep, lastStep, apart).map((step) => {
      const room = chart.width - 3.6 * number(step).length; // The last number stays inside.
      return shape('text', { class: 'middle', x: Math.min(xOf(chart, step), room), y: bottom + 16 }, number(step));
    });
    return [...levels, ...steps];
  }

  function place(chart) {
    chart.width = Math.max(160, chart.svg.clientWidth);
    chart.scale = scaleOf(chart);
    chart.left = 14 + 7 * Math.max(...chart.scale.levels.map((level) => number(level).length));
    chart.front = shape('g');
    chart.svg.replaceChildren(...drawAxes(chart), ...chart.data.series.flatMap((series, i) => drawSeries(chart, series, i)), chart.front);
  }

  // ---- reading a step

  function nearest(points, step) {
    let best = null;
    for (const point of points) if (best === null || Math.abs(point[0] - step) < Math.abs(best[0] - step)) best = point;
    return best;
  }
  const readAt = ({ points }) => (shown === null ? points.at(-1) ?? null : nearest(points, shown));

  function readChart(chart) {
    const { series, unit } = chart.data;
    const items = series.map((one, i) => {
      const point = readAt(one);
      const swatch = element('span', { class: i === 0 ? 'swatch line' : 'swatch', style: `background:var(--series-${i % 4})` });
      const name = series.length > 1 ? `${one.name} ` : '';
      return element('li', {}, swatch, point ? `${name}${withUnit(point[1], unit)}` : `${name}none`);
    });
    const step = shown === null ? lastStep : shown;
    const about = series.some(({ means }) => means) ? 'about step' : 'step';
    chart.values.replaceChildren(...items, element('li', { class: 'quiet' }, `${about} ${stepText(step)}`));
    // A screen reader reads the values of the step while the arrow keys move it.
    const words = series.map((one) => { const point = readAt(one); return `${one.name} ${point ? withUnit(point[1], unit) : 'none'}`; });
    fill(chart.svg, { 'aria-valuemin': firstStep, 'aria-valuemax': lastStep, 'aria-valuenow': step, 'aria-valuetext': `step ${stepText(step)}: ${words.join(', ')}` }, []);
    chart.front.replaceChildren();
    if (shown === null) return;
    const x = xOf(chart, shown);
    chart.front.append(shape('path', { class: 'cross', d: `M${x} 4V${bottomOf(chart)}` }));
    series.forEach((one, i) => {
      const point = readAt(one);
      if (!point || point[1] === null) return;
      chart.front.append(shape('circle', { class: 'spot', r: 4.5, cx: xOf(chart, point[0]), cy: yOf(chart, point[1]), fill: `var(--series-${i % 4})` }));
    });
  }

  function read(step) {
    shown = step;
    charts.forEach(readChart);
  }

  const mainPoints = (chart) => chart.data.series[0]?.points ?? [];

  function point(chart, event) {
    const found = nearest(mainPoints(chart), stepAt(chart, event.clientX - chart.svg.getBoundingClientRect().left));
    read(found ? found[0] : null);
  }

  function onKey(chart, event) {
    const points = mainPoints(chart);
    if (points.length === 0) return;
    const at = shown === null ? points.length - 1 : points.indexOf(nearest(points, shown));
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, PageUp: at - 10, PageDown: at + 10, Home: 0, End: points.length - 1 }[event.key];
    if (event.key === 'Escape') read(null);
    else if (to === undefined) return;
    else read(points[Math.min(Math.max(0, to), points.length - 1)][0]);
    event.preventDefault();
  }

  // ---- what is drawn once

  function addChart(chartData, i) {
    const height = i === 0 ? 320 : 170;
    const chart = { data: chartData, height };
    chart.values = element('ul', { class: 'values' });
    chart.svg = shape('svg', { height, tabindex: '0', role: 'slider', 'aria-label': `${chartData.title} over the steps`, 'aria-describedby': 'keys' });
    const unit = chartData.unit ? [element('span', { class: 'quiet' }, chartData.unit)] : [];
    const section = element('section', { class: 'chart', 'aria-label': chartData.title }, element('h2', {}, chartData.title, ...unit), chart.values, chart.svg);
    $('charts').append(section);
    chart.svg.addEventListener('pointermove', (event) => point(chart, event));
    chart.svg.addEventListener('pointerdown', (event) => point(chart, event));
    chart.svg.addEventListener('pointerleave', () => read(null));
    chart.svg.addEventListener('keydown', (event) => onKey(chart, event));
    charts.push(chart);
  }

  // Each picture has styles of its own, which a shadow tree keeps from the page.
  function addPictures(id, pictures) {
    $(id).replaceChildren();
    for (const { title, words, svg } of pictures) {
      const frame = element('div', { class: 'picture', role: 'img', 'aria-label': title });
      const shadow = frame.attachShadow({ mode: 'open' });
      shadow.innerHTML = svg;
      shadow.append(element('style', {}, 'svg { display: block; max-width: 100%; height: auto; border-radius: 6px; }'));
      $(id).append(element('section', {}, element('h2', {}, title), frame, ...(words ? [element('p', { class: 'quiet' }, words)] : [])));
    }
  }

  const rows = (facts) => facts.map(([name, value]) => element('tr', {}, element('th', { scope: 'row' }, name), element('td', {}, value)));

  function addTables() {
    $('run').querySelector('table').replaceChildren(...rows(data.run));
    $('run').hidden = data.run.length === 0;
    const tables = $('configuration').querySelector('.tables');
    tables.replaceChildren();
    for (const { title, facts } of data.configuration) tables.append(element('div', {}, element('h3', {}, title), element('table', {}, ...rows(facts))));
    $('configuration').hidden = data.configuration.length === 0;
  }

  let waiting = false;
  function render() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      charts.forEach(place);
      charts.forEach(readChart);
    });
  }

  // ---- what a live page draws again

  const titles = () => JSON.stringify(data.charts.map(({ title }) => title));
  let drawn = {}; // The JSON of each part, so that only what has changed is drawn again.
  function draw(part, value, how) {
    const json = JSON.stringify(value);
    if (drawn[part] !== json) how();
    drawn[part] = json;
  }

  function show() {
    findSteps();
    document.title = data.title;
    document.querySelector('h1').textContent = data.title;
    $('summary').textContent = data.summary;
    $('summary').hidden = data.summary === '';
    $('keys').hidden = data.charts.length === 0;
    draw('charts', titles(), () => {
      charts = [];
      $('charts').replaceChildren();
      data.charts.forEach(addChart);
    });
    charts.forEach((chart, i) => { chart.data = data.charts[i]; });
    draw('mesh', data.mesh, () => addPictures('mesh', data.mesh));
    draw('pipeline', data.pipeline, () => addPictures('pipeline', data.pipeline));
    draw('tables', [data.run, data.configuration], addTables);
    render();
  }

  let version = '';
  async function update() {
    try {
      const answer = await fetch(data.live, { headers: version ? { 'If-None-Match': version } : {} });
      if (answer.status === 200) {
        data = await answer.json();
        version = answer.headers.get('ETag');
        show();
      } else if (answer.status !== 304) {
        throw new Error(answer.statusText);
      }
      $('live').textContent = `Live, up to date at ${new Date().toLocaleTimeString()}`;
      $('live').classList.remove('lost');
    } catch {
      $('live').textContent = 'tessera watch does not answer; the page tries again';
      $('live').classList.add('lost');
    }
    setTimeout(update, 2000);
  }

  new ResizeObserver(render).observe($('charts'));
  show();
  if (data.live) {
    $('live').hidden = false;
    update();
  }
})();
