// Shows the layout that stands as JSON in the page. Everything that is computed was computed before;
// what is chosen (a rank, a kind of group) stands in the address: #rank=5&kind=tp.
(() => {
  const layout = JSON.parse(document.getElementById('data').textContent);
  const { world, kinds } = layout;
  const perNode = Math.min(layout.gpus_per_node, world);
  const columns = Math.min(perNode, 8);
  const chosen = { rank: null, kind: null };
  const $ = (id) => document.getElementById(id);

  // Colours that people with any kind of colour vision can tell apart (Okabe and Ito), each with its
  // text; groups beyond them come in lighter and darker turns.
  const palette = [
    [0, 114, 178], [230, 159, 0], [0, 158, 115], [204, 121, 167],
    [86, 180, 233], [213, 94, 0], [240, 228, 66], [140, 140, 140],
  ];
  const turns = [0, 0.5, -0.4];

  const mix = (channel, turn) => Math.round(turn > 0 ? channel + (255 - channel) * turn : channel * (1 + turn));

  function colour(index) {
    const turn = turns[Math.floor(index / palette.length) % turns.length];
    const [r, g, b] = palette[index % palette.length].map((channel) => mix(channel, turn));
    const light = 0.299 * r + 0.587 * g + 0.114 * b > 125;
    return { fill: `rgb(${r} ${g} ${b})`, ink: light ? '#111' : '#fff' };
  }

  // ---- small helpers

  const number = (value) => value.toLocaleString('en-US');
  const counted = (count, one, many) => `${number(count)} ${count === 1 ? one : many}`;
  const nodeOf = (rank) => Math.floor(rank / layout.gpus_per_node);
  const rackOf = (rank) => layout.nodes_per_rack ? Math.floor(nodeOf(rank) / layout.nodes_per_rack) : 0;
  const membersOf = (kind, rank) => {
    const group = kind.group_of[rank];
    if (group < 0) return [];
    return kind.group_of.flatMap((other, member) => (other === group ? [member] : []));
  };

  function bytes(value) {
    const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB'];
    let unit = 0;
    while (value >= 1000 && unit + 1 < units.length) { value /= 1000; unit += 1; }
    return `${value >= 100 || unit === 0 ? Math.round(value) : value.toPrecision(3)} ${units[unit]}`;
  }

  // "0–7, 16–23" instead of sixteen numbers.
  function ranges(ranks) {
    const parts = [];
    for (let begin = 0, end; begin < ranks.length; begin = end) {
      end = begin + 1;
      while (end < ranks.length && ranks[end] === ranks[end - 1] + 1) end += 1;
      if (end - begin === 2) end -= 1;
      parts.push(end - begin > 1 ? `${ranks[begin]}–${ranks[end - 1]}` : `${ranks[begin]}`);
    }
    return parts.join(', ');
  }

  // Where the other members are, seen from a rank: "all in its node".
  function whereabouts(rank, members) {
    const others = members.filter((member) => member !== rank);
    const away = others.filter((member) => nodeOf(member) !== nodeOf(rank));
    const far = others.filter((member) => rackOf(member) !== rackOf(rank));
    const nodes = new Set(away.map(nodeOf)).size;
    const all = others.length === 1 ? '' : 'all ';
    if (away.length === 0) return `${all}in its node`;
    const spread = `${counted(nodes, 'other node', 'other nodes')}`;
    const racks = far.length === 0 ? '' : far.length === away.length
      ? ` in ${new Set(far.map(rackOf)).size === 1 ? 'another rack' : 'other racks'}`
      : `, ${number(far.length)} of them in other racks`;
    if (away.length === others.length) return `${all}on ${spread}${racks}`;
    return `${number(others.length - away.length)} in its node, ${number(away.length)} on ${spread}${racks}`;
  }

  // ---- the parts of the page

  function showSizes() {
    for (const [name, value] of layout.lines) {
      $('sizes').append(element('dt', {}, name), element('dd', {}, value));
    }
  }

  function kindButton(id, label, title, ...before) {
    const input = element('input', { type: 'radio', name: 'kind', id: `kind-${id}`, value: id });
    const shown = element('label', { for: `kind-${id}`, title }, ...before, label);
    input.addEventListener('change', () => choose({ kind: id === 'rank' ? null : Number(id) }));
    return [input, shown];
  }

  const swatch = (index) => element('span', { class: 'swatch', style: `background:${colour(index).fill}`, 'aria-hidden': 'true' });

  function showKinds() {
    const box = $('kinds');
    box.append(...kindButton('rank', 'the groups of a rank', 'Every group that the chosen rank is in'));
    const further = element('div', { class: 'more' });
    kinds.forEach((kind, index) => {
      const [input, label] = kindButton(index, kind.label, kind.names.join(', '), swatch(index));
      (kind.has_role ? box : further).append(input, label);
    });
    if (!further.children.length) return;
    box.append(element('details', {}, element('summary', {}, counted(further.children.length / 2, 'further kind', 'further kinds')), further));
  }

  function cellSize() {
    const steps = [[16, 60], [64, 36], [128, 30], [256, 25], [1024, 17]];
    const step = steps.find(([most]) => world <= most);
    return step ? step[1] : 9;
  }

  function drawNode(first) {
    const cells = element('div', { class: 'cells', style: `--columns:${columns}` });
    for (let rank = first; rank < Math.min(first + perNode, world); rank += 1) {
      const cell = element('div', { class: 'cell', role: 'option', id: `rank-${rank}`, tabindex: '-1', 'aria-selected': 'false' }, `${rank}`);
      cell.dataset.rank = rank;
      cells.append(cell);
    }
    const name = `node ${nodeOf(first)}`;
    return element('div', { class: 'node', role: 'group', 'aria-label': name }, element('div', { class: 'node-name', 'aria-hidden': 'true' }, name), cells);
  }

  function drawMap() {
    const size = cellSize();
    document.documentElement.style.setProperty('--cell-size', `${size}px`);
    document.body.classList.toggle('small', size < 20);
    document.body.classList.toggle('tiny', size < 12);
    let rack = null;
    let rackNumber = -1;
    for (let first = 0; first < world; first += perNode) {
      if (rackOf(first) !== rackNumber) {
        rackNumber = rackOf(first);
        rack = element('div', { class: layout.nodes_per_rack ? 'rack framed' : 'rack', role: 'presentation' });
        if (layout.nodes_per_rack) rack.append(element('div', { class: 'rack-name' }, `rack ${rackNumber}`));
        $('map').append(rack);
      }
      rack.append(drawNode(first));
    }
    cells = [...document.querySelectorAll('.cell')];
  }
  let cells = [];

  // The chosen rank's groups, each in the colour of its kind; a rank in several has stripes.
  function colourByRank() {
    const shared = cells.map(() => []);
    if (chosen.rank !== null) {
      kinds.forEach((kind, index) => {
        if (!kind.main) return;
        for (const member of membersOf(kind, chosen.rank)) shared[member].push(index);
      });
    }
    cells.forEach((cell, rank) => {
      const mates = rank === chosen.rank ? [] : shared[rank];
      paint(cell, mates.map(colour));
      cell.classList.toggle('dim', false);
      cell.classList.toggle('mate', false);
    });
  }

  function paint(cell, colours) {
    const stripes = colours.map(({ fill }, i) => `${fill} ${(100 * i) / colours.length}% ${(100 * (i + 1)) / colours.length}%`);
    cell.style.background = colours.length > 1 ? `linear-gradient(90deg, ${stripes.join(', ')})` : colours[0]?.fill ?? '';
    cell.style.color = colours[0]?.ink ?? '';
  }

  // Every group of a kind in a colour; the chosen rank's one stands out.
  function colourByKind(kind) {
    const group = chosen.rank === null ? null : kind.group_of[chosen.rank];
    cells.forEach((cell, rank) => {
      const own = kind.group_of[rank];
      paint(cell, own < 0 ? [] : [colour(own)]);
      cell.classList.toggle('mate', group !== null && own === group && own >= 0);
      cell.classList.toggle('dim', group !== null && own !== group);
    });
  }

  function describe(rank) {
    const axes = layout.axes.map(({ label, coordinate }) => `${label} ${coordinate[rank]}`);
    const kind = kinds[chosen.kind];
    const group = kind ? `, ${kind.label} group ${kind.group_of[rank] < 0 ? 'none' : kind.group_of[rank]}` : '';
    return `rank ${rank}: node ${nodeOf(rank)}, GPU ${rank % layout.gpus_per_node}; ${axes.join(', ')}${group}`;
  }

  function showMeaning() {
    const kind = kinds[chosen.kind];
    if (!kind) {
      $('meaning').textContent = chosen.rank === null ? 'Choose a rank to see every group that it is in.'
        : `Ranks in a colour share a group with rank ${chosen.rank}.`;
      return;
    }
    const { groups_per_link: links } = kind;
    const places = Object.entries(links).filter(([, count]) => count > 0)
      .map(([link, count]) => `${number(count)} ${link === 'in node' ? 'inside a node' : link}`);
    const wraps = kind.count > palette.length * turns.length ? ' Colours repeat.' : '';
    $('meaning').textContent = `${kind.label}: ${counted(kind.count, 'group', 'groups')} of ${kind.size}; ${places.join(', ')}. ${kind.explanation}${wraps}`;
  }

  // "Rank 5 talks to 7 others in every layer (tp), all in its node."
  function sentences(rank) {
    return kinds.filter((kind) => kind.often && membersOf(kind, rank).length > 1).map((kind) => {
      const members = membersOf(kind, rank);
      return `Rank ${rank} talks to ${counted(members.length - 1, 'other', 'others')} ${kind.often} (${kind.label}), ${whereabouts(rank, members)}.`;
    });
  }

  function groupEntry(kind, index, rank) {
    const members = membersOf(kind, rank);
    const heading = element('h3', {}, swatch(index), `${kind.label}: ${counted(members.length, 'rank', 'ranks')}`, element('span', { class: 'quiet' }, `group ${kind.group_of[rank]}`));
    const traffic = kind.traffic ? element('div', {}, `sends ${bytes(kind.traffic.bytes)} a step: ${kind.traffic.what}`) : '';
    const names = kind.names.filter((name) => name !== kind.label).join(', ');
    return element('div', { class: 'group' }, heading,
      element('div', { class: 'members' }, ranges(members)), traffic, element('div', { class: 'name' }, names));
  }

  function showStory() {
    const rank = chosen.rank;
    $('story-title').textContent = rank === null ? 'One rank' : `Rank ${rank}`;
    if (document.activeElement !== $('search')) $('search').value = rank ?? '';
    $('words').replaceChildren();
    $('groups').replaceChildren();
    if (rank === null) {
      $('words').append(element('p', {}, 'Choose a rank in the picture, or write its number above.'));
      return;
    }
    const talk = sentences(rank);
    $('words').append(element('p', { class: 'place' }, describe(rank).replace(/^rank \d+: /, '')),
      ...(talk.length ? talk : [`Rank ${rank} talks to nobody: every group has one rank.`]).map((text) => element('p', {}, text)));
    kinds.forEach((kind, index) => {
      if (kind.group_of[rank] >= 0) $('groups').append(groupEntry(kind, index, rank));
    });
  }

  function showSelection() {
    cells.forEach((cell, rank) => {
      cell.classList.toggle('chosen', rank === chosen.rank);
      cell.setAttribute('aria-selected', String(rank === chosen.rank));
      cell.tabIndex = rank === (chosen.rank ?? 0) ? 0 : -1;
    });
    $(`kind-${chosen.kind ?? 'rank'}`).checked = true;
  }

  // ---- what travels

  const links = ['in node', 'across nodes', ...(layout.nodes_per_rack ? ['across racks'] : [])];

  function cell(title, text, classes = 'number') {
    return element('td', { class: classes, 'data-title': title }, text);
  }

  // Bytes where they are estimated, otherwise how many groups cross the link.
  function linkCell(kind, link) {
    const amount = layout.step ? kind.traffic?.per_link[link] : kind.groups_per_link[link];
    if (!amount) return cell(link, '–', 'number none');
    return cell(link, layout.step ? bytes(amount) : counted(amount, 'group', 'groups'));
  }

  function trafficRow(kind, index) {
    const { traffic } = kind;
    const row = element('tr', {}, element('th', { scope: 'row' }, swatch(index), ` ${kind.label}`),
      cell('groups', `${number(kind.count)} of ${number(kind.size)}`));
    if (layout.step) row.append(cell('a rank sends', traffic ? bytes(traffic.bytes) : '–', traffic ? 'number' : 'number none'));
    row.append(...links.map((link) => linkCell(kind, link)));
    if (layout.step) {
      const what = traffic ? element('span', {}, traffic.what, element('code', {}, traffic.formula)) : 'hardly anything';
      row.append(cell('what, and the formula', what, traffic ? '' : 'none'));
    }
    return row;
  }

  function showTraffic() {
    const titles = ['kind', 'groups', ...(layout.step ? ['a rank sends'] : []), ...links, ...(layout.step ? ['what, and the formula'] : [])];
    const numeric = (title) => !['kind', 'what, and the formula'].includes(title);
    const head = element('tr', {}, ...titles.map((title) => element('th', { scope: 'col', class: numeric(title) ? 'number' : '' }, title)));
    const rows = kinds.flatMap((kind, index) => (kind.has_role ? [trafficRow(kind, index)] : []));
    const table = element('table', {}, element('thead', {}, head), element('tbody', {}, ...rows));
    $('traffic').append(element('p', {}, layout.step
      ? 'An estimate for one training step: what a rank sends over each kind of group, and what all ranks together send over links inside nodes and between them.'
      : 'Links that the groups of each kind cross. With --hidden, --layers and --sequence this page also estimates how much a training step sends over them.'),
    element('div', { class: 'scroll' }, table));
    if (layout.step) showFormulas();
  }

  function showFormulas() {
    const list = element('dl');
    for (const { letter, meaning, value, unit } of layout.symbols) {
      list.append(element('dt', {}, element('code', {}, letter)), element('dd', {}, `${meaning} = ${unit === 'bytes' ? bytes(value) : number(Math.round(value * 100) / 100)}`));
    }
    list.append(element('dt', {}, element('code', {}, 'n')), element('dd', {}, 'ranks in the group'));
    $('traffic').append(list, element('p', { class: 'quiet' }, layout.assumptions));
  }

  // ---- a sequence on its context-parallel ranks

  const percent = (positions) => `${(100 * positions) / layout.sequence.shown}%`;

  // The ends of documents up to what is shown, without the last.
  function documentEnds() {
    const ends = [];
    let end = 0;
    for (const length of layout.sequence.documents) { end += length; ends.push(end); }
    return ends.filter((position) => position < layout.sequence.shown);
  }

  const tokens = ([begin, end]) => (end - begin === 1 ? `token ${number(begin)}` : `tokens ${number(begin)} to ${number(end - 1)}`);

  // Six colours that are visible in thin strips; a row is known by its name.
  function splitRow({ runs, pairs }, index, ends, most) {
    const track = element('div', { class: 'split-track' });
    for (const [begin, end] of runs) {
      const style = `left:${percent(begin)};width:${percent(end - begin)};background:${colour(index % 6).fill}`;
      track.append(element('div', { class: 'split-run', style, title: tokens([begin, end]) }));
    }
    track.append(...ends.map((end) => element('div', { class: 'split-end', style: `left:${percent(end)}` })));
    const first = runs.slice(0, 4).map(tokens).join(', ') + (runs.length > 4 ? ', …' : '');
    return element('div', { class: 'split-row', role: 'listitem', 'aria-label': `cp ${index}: ${first}; ${number(pairs)} pairs` }, element('span', { class: 'split-name' }, `cp ${index}`), track,
      element('span', { class: 'split-load', style: `--load:${(100 * pairs) / most}%` }, `${number(pairs)} pairs`));
  }

  function showDocuments(ends) {
    if (layout.sequence.documents.length < 2) return;
    const marks = element('div', { class: 'split-documents' });
    [...ends, layout.sequence.shown].forEach((end, i) => {
      const begin = i === 0 ? 0 : ends[i - 1];
      const name = `document ${i}`;
      marks.append(element('span', { class: 'split-document', title: name, style: `left:${percent(begin)};width:${percent(end - begin)}` }, 14 * (end - begin) > layout.sequence.shown ? name : ''));
    });
    $('sequence-documents').append(element('span'), marks, element('span'));
  }

  function showSequence() {
    const { sequence } = layout;
    $('sequence').hidden = !sequence;
    if (!sequence) return;
    const documents = sequence.num_documents > 1 ? ` in ${number(sequence.num_documents)} documents` : '';
    const part = sequence.shown < sequence.length ? ` The first ${number(sequence.shown)} tokens are drawn.` : '';
    const rows = sequence.ranks.length < sequence.cp ? ` The first ${number(sequence.ranks.length)} ranks are drawn.` : '';
    $('sequence-words').textContent = `A sequence of ${number(sequence.length)} tokens${documents} on the ${number(sequence.cp)} ranks of a cp group, in the layout ${sequence.name}. A pair is a query and a key that it attends to.${part}${rows}`;
    const ends = documentEnds();
    showDocuments(ends);
    const most = Math.max(...sequence.ranks.map(({ pairs }) => pairs));
    $('sequence-ranks').append(...sequence.ranks.map((rank, index) => splitRow(rank, index, ends, most)));
    $('sequence-balance').textContent = `Balance: ${sequence.balance}.`;
  }

  function markSequence() {
    const cp = layout.axes.find(({ label }) => label === 'cp');
    const own = chosen.rank === null || !cp ? -1 : cp.coordinate[chosen.rank];
    [...$('sequence-ranks').children].forEach((row, index) => row.classList.toggle('chosen', index === own));
  }

  // ---- choosing

  function render() {
    const kind = kinds[chosen.kind];
    if (kind) colourByKind(kind); else colourByRank();
    showSelection();
    showMeaning();
    showStory();
    markSequence();
  }

  function choose(change) {
    Object.assign(chosen, change);
    const parts = [];
    if (chosen.rank !== null) parts.push(`rank=${chosen.rank}`);
    if (chosen.kind !== null) parts.push(`kind=${encodeURIComponent(kinds[chosen.kind].label)}`);
    history.replaceState(null, '', `#${parts.join('&')}`);
    render();
  }

  function chooseFromAddress() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    const rank = wanted.has('rank') ? Number(wanted.get('rank')) : null;
    const kind = kinds.findIndex(({ label }) => label === wanted.get('kind'));
    chosen.rank = Number.isInteger(rank) && rank >= 0 && rank < world ? rank : null;
    chosen.kind = kind < 0 ? null : kind;
    render();
  }

  function search() {
    const text = $('search').value.trim();
    const rank = Number(text);
    const valid = text !== '' && Number.isInteger(rank) && rank >= 0 && rank < world;
    $('search-error').hidden = valid || text === '';
    $('search-error').textContent = valid || text === '' ? '' : `There is no rank ${text}; choose 0 to ${number(world - 1)}.`;
    if (text === '') choose({ rank: null });
    if (valid) choose({ rank });
  }

  function move(rank) {
    if (rank < 0 || rank >= world) return;
    choose({ rank });
    cells[rank].focus();
  }

  function onKey(event) {
    const rank = chosen.rank ?? 0;
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, PageDown: perNode, PageUp: -perNode };
    if (event.key in steps) move(rank + steps[event.key]);
    else if (event.key === 'Home') move(0);
    else if (event.key === 'End') move(world - 1);
    else if (event.key === 'Enter' || event.key === ' ') move(rank);
    else if (event.key === 'Escape') choose({ rank: null });
    else return;
    event.preventDefault();
  }

  function showTip(event) {
    const target = event.target.closest('.cell');
    $('tip').hidden = !target;
    if (!target) return;
    $('tip').textContent = describe(Number(target.dataset.rank));
    const box = target.getBoundingClientRect();
    const tip = $('tip').getBoundingClientRect();
    const left = Math.max(4, Math.min(box.left, document.documentElement.clientWidth - tip.width - 4));
    $('tip').style.left = `${left + scrollX}px`;
    $('tip').style.top = `${Math.max(0, box.top - tip.height - 8) + scrollY}px`;
  }

  showSizes();
  showKinds();
  drawMap();
  showSequence();
  showTraffic();
  $('map').addEventListener('click', (event) => {
    const target = event.target.closest('.cell');
    if (target) move(Number(target.dataset.rank));
  });
  $('map').addEventListener('keydown', onKey);
  $('map').addEventListener('pointerover', showTip);
  $('map').addEventListener('pointerleave', () => { $('tip').hidden = true; });
  $('search').addEventListener('input', search);
  window.addEventListener('hashchange', chooseFromAddress);
  chooseFromAddress();
})();
