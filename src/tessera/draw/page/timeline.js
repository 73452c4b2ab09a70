// Shows the schedules that stand as JSON in the page, all on one time axis. Times, colours and what
// needs what were computed before; here they are laid out, zoomed and lit.
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const $ = (id) => document.getElementById(id);
  const view = { start: 0, end: data.end };
  const charts = [];
  let hovered = null; // { chart, block }
  let chosen = null;

  // ---- small helpers

  const time = (value) => String(Number(value.toPrecision(7)));
  const share = (part, whole) => `${(100 * part / whole).toFixed(1)} %`;
  const same = (a, b) => a?.chart === b?.chart && a?.block === b?.block;

  // Where the chart's parts stand, in pixels.
  const most = Math.max(...data.schedules.map(({ ranks }) => ranks.length));
  const rowHeight = most <= 8 ? 30 : most <= 16 ? 24 : most <= 32 ? 18 : 12;
  const rowGap = most <= 16 ? 4 : 2;
  const left = 54 + 8 * String(most - 1).length;
  const rulerHeight = 24;
  const memoryHeight = 100;
  const rowTop = (rank) => 3 + rank * (rowHeight + rowGap); // A frame is wider than its block.
  const rightOf = (chart) => (chart.width > 640 ? 128 : 6);
  const spanOf = (chart) => Math.max(20, chart.width - left - rightOf(chart));
  const xOf = (chart, at) => left + (at - view.start) / (view.end - view.start) * spanOf(chart);
  const timeAt = (chart, x) => view.start + (x - left) / spanOf(chart) * (view.end - view.start);

  // ---- what is drawn once

  function showLegend() {
    const list = $('legend');
    const entry = (words, ...swatches) => list.append(element('li', {}, ...swatches, words));
    for (const { words, colors } of data.legend) {
      entry(words, ...colors.slice(0, 4).map((color) => element('span', { class: 'swatch', style: `background:${color}` })));
    }
    if (data.overlaps) entry('stacked: both at once');
    entry('idle', element('span', { class: 'swatch idle' }));
    if (data.legend.some(({ colors }) => colors.length > 1)) entry("lighter: a rank's later stages");
    entry('numbers: microbatches');
  }

  const textOf = ({ tasks }) => tasks.map(({ stage, type, microbatch }) => `${stage}${type}${microbatch}`).join(' + ');

  function nameOf(block) {
    const parts = block.tasks.map(({ words, stage, microbatch }) => `${words} of microbatch ${microbatch} on stage ${stage}`);
    return `rank ${block.rank}: ${parts.join(' together with ')}, from ${time(block.start)} to ${time(block.end)}`;
  }

  function drawBlock(block, index) {
    const group = shape('g', { class: 'block', tabindex: '-1', role: 'img', 'aria-label': nameOf(block), 'data-block': index });
    const height = rowHeight / block.tasks.length;
    block.tasks.forEach((task, i) => {
      const y = rowTop(block.rank) + i * height;
      group.append(shape('rect', { y, height, fill: task.color }));
      if (height < 11) return;
      const label = shape('text', { y: y + height / 2 + 4 }, String(task.microbatch));
      if (height < 16) label.style.fontSize = '10px';
      group.append(label);
    });
    return group;
  }

  function drawRanks(chart) {
    const { schedule, back } = chart;
    schedule.ranks.forEach((rank, i) => {
      const middle = rowTop(i) + rowHeight / 2 + 4;
      back.append(shape('rect', { class: 'row', y: rowTop(i), height: rowHeight }));
      if (rowHeight < 14 && i % 4 !== 0) return;
      back.append(shape('text', { x: 0, y: middle }, `rank ${i}`));
      chart.figures.append(shape('text', { class: 'note end', y: middle, 'data-from-end': 62 }, share(rank.bubble, schedule.makespan)),
        shape('text', { class: 'note end', y: middle, 'data-from-end': 4 }, String(rank.peak)));
    });
  }

  function drawChart(schedule, number) {
    const height = rowTop(schedule.ranks.length) + rulerHeight;
    const chart = { schedule, number, height, users: schedule.blocks.map(() => []) };
    schedule.blocks.forEach((block, i) => block.needs.forEach((need) => chart.users[need].push(i)));
    chart.back = shape('g');
    chart.figures = shape('g');
    chart.ruler = shape('g');
    chart.front = shape('g', { 'clip-path': `url(#clip-${number})` });
    chart.marks = shape('g', { 'clip-path': `url(#clip-${number})` });
    chart.clip = shape('rect', { y: 0, height });
    chart.svg = shape('svg', { class: 'chart', height, tabindex: '0', role: 'group', 'aria-label': `${schedule.name}: timeline`, 'aria-describedby': 'keys' },
      shape('defs', {}, shape('clipPath', { id: `clip-${number}` }, chart.clip)),
      chart.back, chart.figures, chart.ruler, chart.front, chart.marks);
    drawRanks(chart);
    chart.blocks = schedule.blocks.map(drawBlock);
    chart.front.append(...chart.blocks);
    drawMemory(chart);
    listen(chart);
    const heading = element('h2', {}, schedule.name, element('span', { class: 'quiet' }, `${schedule.shape}; ${schedule.result}`));
    $('schedules').append(element('section', { 'aria-label': schedule.name }, heading, chart.svg, chart.memory));
    charts.push(chart);
  }

  function drawMemory(chart) {
    const { schedule, number } = chart;
    chart.levels = shape('g');
    chart.lines = schedule.ranks.map((rank, i) => shape('path', {
      class: 'live', style: `--depth:${100 - Math.round(100 * i / schedule.ranks.length)}%`,
    }, shape('title', {}, `rank ${i}: at most ${rank.peak}`)));
    chart.memory = shape('svg', { class: 'memory', height: memoryHeight, role: 'img', 'aria-label': `${schedule.name}: live activations, at most ${schedule.peak}` },
      chart.levels, shape('g', { 'clip-path': `url(#clip-${number})` }, ...chart.lines));
  }

  // ---- what follows the zoom

  function place(chart, block, group) {
    const x = xOf(chart, block.start);
    const width = xOf(chart, block.end) - x;
    const inside = x < left + spanOf(chart) && x + width > left;
    group.style.display = inside ? '' : 'none';
    if (!inside) return;
    for (const child of group.children) {
      if (child.tagName === 'rect') {
        child.setAttribute('x', x);
        child.setAttribute('width', Math.max(width, 0.5));
      } else {
        child.setAttribute('x', x + width / 2);
        child.style.display = width < 7 * child.textContent.length + 1 ? 'none' : '';
      }
    }
  }

  function step(length, fitting) {
    const rough = length / Math.max(1, fitting);
    const power = 10 ** Math.floor(Math.log10(rough));
    return power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  }

  function placeRuler(chart) {
    const y = rowTop(chart.schedule.ranks.length);
    const apart = step(view.end - view.start, Math.floor(spanOf(chart) / 70));
    chart.ruler.replaceChildren(shape('path', { class: 'tick', d: `M${left} ${y + 2}h${spanOf(chart)}` }));
    for (let i = Math.ceil(view.start / apart - 1e-9); i * apart <= view.end * (1 + 1e-9); i += 1) {
      const x = xOf(chart, i * apart);
      chart.ruler.append(shape('path', { class: 'tick', d: `M${x} ${y + 2}v5` }),
        shape('text', { class: 'note middle', x, y: y + 19 }, time(i * apart)));
    }
    if (rightOf(chart) > 50) {
      chart.ruler.append(shape('text', { class: 'note end', x: chart.width - 62, y: y + 15 }, 'bubble'),
        shape('text', { class: 'note end', x: chart.width - 4, y: y + 15 }, 'peak'));
    }
  }

  // Marks from 0 up to the peak, which is always one of them.
  function levels(peak) {
    const apart = Math.max(1, step(peak, 4));
    const marks = [];
    for (let count = 0; count <= peak - 0.6 * apart; count += apart) marks.push(count);
    return [...marks, peak];
  }

  function placeMemory(chart) {
    const { schedule } = chart;
    const bottom = memoryHeight - 8;
    const yOf = (count) => bottom - count / Math.max(1, schedule.peak) * (bottom - 22);
    schedule.ranks.forEach((rank, i) => {
      let path = `M${xOf(chart, 0)} ${yOf(0)}`;
      for (const [at, count] of rank.live) path += `H${xOf(chart, at)}V${yOf(count)}`;
      chart.lines[i].setAttribute('d', path);
    });
    chart.levels.replaceChildren(shape('text', { class: 'note', x: 0, y: 10 }, 'live activations'));
    for (const count of levels(schedule.peak)) {
      chart.levels.append(shape('path', { class: 'level', d: `M${left} ${yOf(count)}h${spanOf(chart)}` }),
        shape('text', { class: 'note end', x: left - 6, y: yOf(count) + 4 }, String(count)));
    }
  }

  function placeChart(chart) {
    chart.width = chart.svg.clientWidth;
    const span = spanOf(chart);
    chart.clip.setAttribute('x', left - 2); // A frame is wider than its block.
    chart.clip.setAttribute('width', span + 4);
    const rows = chart.back.querySelectorAll('.row');
    const from = Math.max(left, xOf(chart, 0));
    const to = Math.min(left + span, xOf(chart, chart.schedule.makespan));
    for (const row of rows) fill(row, { x: from, width: Math.max(0, to - from) }, []);
    chart.figures.style.display = rightOf(chart) > 50 ? '' : 'none';
    for (const text of chart.figures.children) text.setAttribute('x', chart.width - text.dataset.fromEnd);
    chart.schedule.blocks.forEach((block, i) => place(chart, block, chart.blocks[i]));
    placeRuler(chart);
    placeMemory(chart);
  }

  let waiting = false;
  function render() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      charts.forEach(placeChart);
      light();
    });
  }

  function look(start, length) {
    const shortest = data.end / 2000;
    const whole = Math.min(data.end, Math.max(shortest, length));
    view.start = Math.min(Math.max(0, start), data.end - whole);
    view.end = view.start + whole;
    render();
  }

  function zoom(factor, around = (view.start + view.end) / 2) {
    const length = (view.end - view.start) * factor;
    const before = (around - view.start) / (view.end - view.start);
    look(around - before * length, length);
  }
  const pan = (part) => look(view.start + part * (view.end - view.start), view.end - view.start);

  // ---- what is lit, and its words

  function frame(chart, index, kind) {
    const block = chart.schedule.blocks[index];
    const x = xOf(chart, block.start);
    return shape('rect', { class: `mark ${kind}`, x, y: rowTop(block.rank), rx: 2, width: Math.max(1, xOf(chart, block.end) - x), height: rowHeight });
  }

  // From the end of the maker to the start of the user.
  function arrow(chart, maker, user, kind) {
    const [from, to] = [chart.schedule.blocks[maker], chart.schedule.blocks[user]];
    if (from.rank === to.rank) return [];
    const [x1, x2] = [xOf(chart, from.end), xOf(chart, to.start)];
    const down = to.rank > from.rank;
    const y1 = rowTop(from.rank) + (down ? rowHeight : 0);
    const y2 = rowTop(to.rank) + (down ? 0 : rowHeight);
    const bend = (y2 - y1) / 2;
    return [shape('path', { class: `arrow ${kind}`, 'marker-end': 'url(#arrow-head)', d: `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}` })];
  }

  function lightChart(chart, shown) {
    const index = shown?.chart === chart ? shown.block : null;
    chart.svg.classList.toggle('chosen-one', index !== null);
    chart.memory.classList.toggle('one-rank', index !== null);
    for (const lit of chart.svg.querySelectorAll('.block.shown, .block.need, .block.user')) lit.classList.remove('shown', 'need', 'user');
    chart.marks.replaceChildren();
    if (index === null) return;
    const { needs, rank } = chart.schedule.blocks[index];
    const users = chart.users[index];
    chart.blocks[index].classList.add('shown');
    needs.forEach((need) => chart.blocks[need].classList.add('need'));
    users.forEach((user) => chart.blocks[user].classList.add('user'));
    chart.marks.append(...needs.map((need) => frame(chart, need, 'need')), ...users.map((user) => frame(chart, user, 'user')),
      ...needs.flatMap((need) => arrow(chart, need, index, 'need')), ...users.flatMap((user) => arrow(chart, index, user, 'user')),
      frame(chart, index, 'shown'));
    chart.lines.forEach((line, i) => line.classList.toggle('own', i === rank));
  }

  const list = (chart, indices, edge) => indices.map((i) => {
    const block = chart.schedule.blocks[i];
    return `${textOf(block)} (rank ${block.rank}, ${edge} ${time(block[edge === 'ends' ? 'end' : 'start'])})`;
  }).join(', ');

  // What it had to wait for last: its rank, or a result.
  function cause(chart, index) {
    const block = chart.schedule.blocks[index];
    const before = index > 0 && chart.schedule.blocks[index - 1].rank === block.rank ? chart.schedule.blocks[index - 1] : null;
    if (before && before.end >= block.start - 1e-9) return `Its rank was busy until then, with ${textOf(before)}.`;
    const last = block.needs.map((need) => chart.schedule.blocks[need]).sort((a, b) => b.end - a.end)[0];
    if (!last) return 'Nothing had to be waited for.';
    const idle = block.start - (before ? before.end : 0);
    return `Its rank was idle for ${time(idle)}, until the result of ${textOf(last)} was there.`;
  }

  function say(shown) {
    const words = $('words');
    if (!shown) {
      words.replaceChildren(element('p', { class: 'quiet' }, 'Point at a block to see what it waits for, and who waits for it.'));
      return;
    }
    const { chart, block: index } = shown;
    const block = chart.schedule.blocks[index];
    words.replaceChildren(element('p', {}, element('strong', {}, textOf(block)), nameOf(block), `. ${cause(chart, index)}`),
      element('p', {}, block.needs.length ? `Waits for ${list(chart, block.needs, 'ends')}.` : 'Waits for no result.', ' ',
        chart.users[index].length ? `Waited for by ${list(chart, chart.users[index], 'starts')}.` : 'Nobody waits for its result.'));
  }

  function light() {
    const shown = hovered ?? chosen;
    charts.forEach((chart) => lightChart(chart, shown));
    say(shown);
  }

  function hover(spot) {
    if (same(spot, hovered)) return;
    hovered = spot;
    light();
  }

  function choose(chart, index) {
    chosen = index === null ? null : { chart, block: index };
    hovered = null;
    if (index !== null) {
      const block = chart.schedule.blocks[index];
      const length = view.end - view.start;
      if (block.start < view.start || block.end > view.end) look((block.start + block.end) / 2 - length / 2, length);
      chart.blocks[index].style.display = '';
      chart.blocks[index].focus({ preventScroll: true });
    }
    light();
  }

  // ---- hands on it

  const blockAt = (event) => {
    const group = event.target.closest?.('.block');
    return group ? Number(group.dataset.block) : null;
  };

  // The block of another rank that is nearest in time.
  function neighbour(chart, index, by) {
    const { blocks, ranks } = chart.schedule;
    const { rank, start, end } = blocks[index];
    const wanted = rank + by;
    if (wanted < 0 || wanted >= ranks.length) return index;
    const middle = (start + end) / 2;
    const distance = (i) => Math.abs((blocks[i].start + blocks[i].end) / 2 - middle);
    return blocks.map((_, i) => i).filter((i) => blocks[i].rank === wanted).reduce((best, i) => (distance(i) < distance(best) ? i : best), blocks.findIndex((block) => block.rank === wanted));
  }

  function move(chart, key) {
    const { blocks } = chart.schedule;
    const index = chosen?.chart === chart ? chosen.block : 0;
    const onRank = (i) => (blocks[i]?.rank === blocks[index].rank ? i : index);
    const to = {
      ArrowRight: () => onRank(index + 1),
      ArrowLeft: () => onRank(index - 1),
      ArrowDown: () => neighbour(chart, index, 1),
      ArrowUp: () => neighbour(chart, index, -1),
      Home: () => blocks.findIndex(({ rank }) => rank === blocks[index].rank),
      End: () => blocks.findLastIndex(({ rank }) => rank === blocks[index].rank),
      Enter: () => index,
    }[key];
    if (!to) return false;
    choose(chart, chosen?.chart === chart ? to() : 0);
    return true;
  }

  const keys = {
    '+': () => zoom(1 / 1.5), '=': () => zoom(1 / 1.5), '-': () => zoom(1.5), '−': () => zoom(1.5),
    '[': () => pan(-0.25), ']': () => pan(0.25), 0: () => look(0, data.end),
    Escape: () => { choose(null, null); document.activeElement?.blur(); },
  };

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const chart = charts.find(({ svg }) => svg.contains(document.activeElement));
    if (event.key in keys) keys[event.key]();
    else if (!chart || !move(chart, event.key)) return;
    event.preventDefault();
  }

  // The page scrolls unless the wheel was meant for the chart.
  function onWheel(chart, event) {
    const meant = event.ctrlKey || event.metaKey || chart.svg.contains(document.activeElement);
    const sideways = event.shiftKey ? event.deltaX || event.deltaY : Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : 0;
    if (!meant && !sideways) return;
    event.preventDefault();
    if (sideways) pan(sideways / spanOf(chart));
    else zoom(1.0015 ** event.deltaY, timeAt(chart, event.clientX - chart.svg.getBoundingClientRect().left));
  }

  function drag(chart, event) {
    if (event.button !== 0) return;
    const { svg } = chart;
    const from = { x: event.clientX, start: view.start };
    let moved = false;
    const onMove = (now) => {
      if (!moved && Math.abs(now.clientX - from.x) < 4) return;
      moved = true;
      svg.classList.add('moving');
      const length = view.end - view.start;
      look(from.start - (now.clientX - from.x) / spanOf(chart) * length, length);
    };
    const onUp = (now) => {
      removeEventListener('pointermove', onMove);
      removeEventListener('pointerup', onUp);
      removeEventListener('pointercancel', onUp);
      svg.classList.remove('moving');
      if (!moved && now.type === 'pointerup') choose(chart, blockAt(event));
    };
    addEventListener('pointermove', onMove);
    addEventListener('pointerup', onUp);
    addEventListener('pointercancel', onUp);
  }

  function listen(chart) {
    const { svg } = chart;
    svg.addEventListener('pointermove', (event) => {
      const index = blockAt(event);
      hover(index === null ? null : { chart, block: index });
    });
    svg.addEventListener('pointerleave', () => hover(null));
    svg.addEventListener('pointerdown', (event) => drag(chart, event));
    svg.addEventListener('wheel', (event) => onWheel(chart, event), { passive: false });
  }

  $('subtitle').textContent = data.subtitle;
  document.body.append(shape('svg', { width: 0, height: 0, class: 'hidden', 'aria-hidden': 'true' }, shape('defs', {},
    shape('marker', { id: 'arrow-head', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto' }, shape('path', { d: 'M0 0L8 4L0 8z' })))));
  showLegend();
  data.schedules.forEach(drawChart);
  $('zoom-in').addEventListener('click', () => zoom(1 / 1.5));
  $('zoom-out').addEventListener('click', () => zoom(1.5));
  $('earlier').addEventListener('click', () => pan(-0.25));
  $('later').addEventListener('click', () => pan(0.25));
  $('whole').addEventListener('click', () => look(0, data.end));
  addEventListener('keydown', onKey);
  new ResizeObserver(render).observe($('schedules'));
  render();
})();
