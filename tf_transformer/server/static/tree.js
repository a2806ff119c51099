// The beam search as a tree: a column for each step, its hypotheses below one another with the likeliest on top.

import {element, svg, widest, within} from './attention/drawing.js';
import {shown} from './attention/tokens.js';

const ROW = 54; // pixels
const COLUMN = [64, 170];
const TOP = 26;
const LEFT = 14;
const BOX = 28;
const KEYS = {ArrowLeft: 'before', ArrowRight: 'after', ArrowUp: 'above', ArrowDown: 'below'};
const NAMES = {wins: 'became the translation', continued: 'continued', closed: 'finished', dropped: 'dropped', overtaken: 'could no longer win', cut: 'too long'};

const figure = (number) => number.toFixed(2).replace('-', '−');

/** Draws a search (the server's answer to /page/search) with its legend, and tells of the hypothesis that is pointed at. */
export function tree(search) {
  const {steps} = search;
  const nodes = read(steps);
  if (!nodes.length) return element('p', {class: 'hint'}, 'There was nothing to search for.');
  const width = within(widest(nodes.flat().map((node) => node.label), 14) + 26, ...COLUMN);
  const x = (step) => LEFT + step * (width + 26);
  const y = (place) => TOP + place * ROW + BOX / 2;
  const rows = Math.max(...nodes.map((step) => step.length));
  const size = {width: x(nodes.length - 1) + width + LEFT, height: TOP + rows * ROW};
  const told = element('p', {class: 'told', 'aria-live': 'polite'});
  const all = nodes.flat();

  for (const node of all) {
    const box = {x: x(node.step), y: y(node.place) - BOX / 2, width, height: BOX, rx: 6};
    node.drawn = svg(
      'g',
      {
        class: `node ${node.wins ? 'wins' : ''} ${node.fate}`, tabindex: -1, role: 'button',
        'aria-label': `step ${node.step + 1}, ${node.label}, ${node.wins ? NAMES.wins : NAMES[node.fate]}`,
        onmouseenter: () => point(node), onfocus: () => point(node), onkeydown: (event) => follow(event, node),
      },
      svg('rect', {class: 'area', x: box.x, y: box.y, width, height: ROW - 6, fill: 'transparent'}),
      svg('rect', {class: 'box', ...box}),
      svg('text', {class: 'token', x: box.x + width / 2, y: y(node.place), 'text-anchor': 'middle', 'dominant-baseline': 'central', 'unicode-bidi': 'isolate'}, node.label),
      svg('text', {class: 'figure', x: box.x + width / 2, y: y(node.place) + BOX / 2 + 10, 'text-anchor': 'middle'}, mark(node)),
    );
    if (!node.parent) continue;
    const [from, to] = [x(node.step - 1) + width, x(node.step)];
    const [above, below] = [y(node.parent.place), y(node.place)];
    const middle = (from + to) / 2;
    node.line = svg('path', {class: `line ${node.wins ? 'wins' : ''}`, d: `M${from},${above} C${middle},${above} ${middle},${below} ${to},${below}`});
  }

  function point(node) {
    const path = new Set(pathOf(node));
    for (const other of all) {
      other.drawn.classList.toggle('pointed', path.has(other));
      other.line?.classList.toggle('pointed', path.has(other));
    }
    tellOf(node);
  }

  function tellOf(node) {
    for (const other of all) other.drawn.setAttribute('tabindex', other === node ? 0 : -1);
    told.replaceChildren(
      element('bdi', {class: 'path'}, pathOf(node).map(({token}) => token).join('').replaceAll('\u2581', ' ').trim()),
      element('span', {}, ` ${reason(node, search)}`),
    );
  }

  function follow(event, node) {
    const way = KEYS[event.key];
    if (!way) return;
    event.preventDefault();
    const column = nodes[node.step];
    const next = {before: node.parent, after: node.children.find(({wins}) => wins) ?? node.children[0], above: column[node.place - 1], below: column[node.place + 1]}[way];
    if (!next) return;
    next.drawn.focus();
    next.drawn.scrollIntoView({block: 'nearest', inline: 'nearest'});
  }

  const last = all.filter(({wins}) => wins).at(-1) ?? all[0];
  const numbers = nodes.map((_, step) => svg('text', {class: 'figure', x: x(step) + width / 2, y: 12, 'text-anchor': 'middle'}, String(step + 1)));
  const drawn = svg(
    'svg',
    {...size, viewBox: `0 0 ${size.width} ${size.height}`, role: 'group', 'aria-label': 'The search as a tree; the arrow keys move from one hypothesis to the next'},
    ...numbers,
    ...all.flatMap(({line}) => line ?? []),
    ...all.map(({drawn: node}) => node),
  );
  tellOf(last);
  const keys = ['wins', ...Object.keys(NAMES).filter((fate) => fate !== 'wins' && all.some((node) => node.fate === fate && !node.wins))];
  return element(
    'div',
    {class: 'tree'},
    element('p', {class: 'hint'}, `Each column is a step, in which the search keeps the ${search.beamSize} likeliest beginnings. The number is a beginning’s log-probability or, if it is finished, the score that ranks it, after “=”. “·” means that there is no space before a token.`),
    element('ul', {class: 'legend'}, ...keys.map((fate) => element('li', {class: fate}, NAMES[fate]))),
    told,
    element('div', {class: 'scroll'}, drawn),
  );
}

/** The hypotheses with their places, labels, parents and children. */
function read(steps) {
  const [texts] = shown(steps.flat().map(({token}) => token));
  const labels = texts.values();
  const nodes = steps.map((step, number) =>
    step.map((hypothesis, place) => {
      const label = labels.next().value;
      return {...hypothesis, step: number, place, label: hypothesis.token === '</s>' ? 'end' : label, children: []};
    }),
  );
  for (const node of nodes.flat()) {
    node.parent = node.step ? nodes[node.step - 1][node.parent] : null;
    node.parent?.children.push(node);
  }
  return nodes.filter((step) => step.length);
}

function pathOf(node) {
  const path = [];
  for (let each = node; each; each = each.parent) path.unshift(each);
  return path.filter(({token}, place) => place < path.length - 1 || token !== '</s>' || path.length === 1);
}

function mark(node) {
  return node.fate === 'closed' ? `= ${figure(node.score)}` : figure(node.logProbability);
}

/** Why a hypothesis won or lost, in words. */
function reason(node, {steps, score, beamSize}) {
  if (node.wins && node.fate === 'closed') return `is the translation: finished with the best score, ${figure(node.score)}.`;
  if (node.wins && node.fate !== 'cut') return 'is how the translation begins.';
  if (node.fate === 'closed') return `lost: finished with the score ${figure(node.score)}, and the translation has ${figure(score)}.`;
  if (node.fate === 'dropped') {
    const least = Math.min(...steps[node.step + 1].map(({logProbability}) => logProbability));
    return `was dropped: the ${beamSize} likeliest beginnings of the next step all continue others. The last of them has ${figure(least)}.`;
  }
  if (node.fate === 'overtaken') {
    return `could no longer win when the search ended: its score could at best reach ${figure(node.highest)}, and the translation has ${figure(score)}.`;
  }
  if (node.fate === 'cut') return `${node.wins ? 'is the translation, though it' : 'lost: it'} was cut at the maximum length of a translation.`;
  const ends = {};
  const count = (each) => (each.children.length ? each.children.forEach(count) : (ends[each.fate] = (ends[each.fate] ?? 0) + 1));
  count(node);
  const outcome = Object.entries(ends).map(([fate, number]) => `${number} ${NAMES[fate]}`);
  return `was continued, but none of its continuations won: ${outcome.join(', ')}.`;
}
