// The page: choices on the left, the view on the right. Its state is one flat object of strings.

import {makeChoices, matching} from './choices.js';
import {colourOf, element, isDashed, within} from './drawing.js';
import {grid} from './grid.js';
import {heatMap} from './heatmap.js';
import {lines} from './lines.js';
import {saveJson, savePng, saveSvg} from './saving.js';
import {shown} from './tokens.js';
import {COMBINED, nameOf} from './weights.js';

const KINDS = {cross: 'encoder–decoder', encoder: 'encoder self', decoder: 'decoder self'};
const VIEWS = {grid: 'Grid', heat: 'Heat map', lines: 'Lines'};
const LAST = 'last'; // layer
const DEFAULTS = {
  run: '', tag: '', step: '', kind: 'cross', view: 'grid', layer: LAST, head: 'mean', heads: 'all', least: '0.2', runs: '', tags: '',
};
const START = '<s>';
const AROUND = 330; // pixels above and below a drawing
const LEAST = {min: 0.01, max: 1, step: 0.01}; // weight of a line
const EMPTY = 'No attention here yet. Train with the callback AttentionBoard, or run: tf-transformer inspect MODEL "a sentence" --logdir DIR';

/**
 * Shows attention in an element.
 *
 * `source` gives it (source.js), `memory` keeps what is shown (memory.js). Returns {draw}, which draws everything again, and
 * {reload}, which asks the source for what there is before.
 */
export function show(root, source, memory) {
  const state = {...DEFAULTS, ...memory.read()};
  let chosen = {}; // run, tag and step: the state's, or where it names none that is there, the first and newest
  let listing = {runs: {}, damaged: {}};
  let turn = 0; // of drawing: an answer that comes late is not drawn over a newer one
  const choices = makeChoices(change, source.grows ? reload : null);
  const main = element('main', {class: 'view'});
  root.replaceChildren(choices.node, main);
  memory.onChange((values) => {
    Object.assign(state, DEFAULTS, values);
    draw();
  });
  window.addEventListener('resize', draw); // drawings fill the room there is
  reload();
  return {draw, reload};

  async function change(values) {
    Object.assign(state, values);
    const drawn = draw();
    const all = {...state, ...chosen};
    memory.write(Object.fromEntries(Object.entries(all).filter(([name, value]) => value !== DEFAULTS[name])));
    await drawn;
  }

  async function reload() {
    try {
      listing = await source.runs();
    } catch (error) {
      tellProblem(error);
      return;
    }
    await draw();
  }

  async function draw() {
    if (!main.clientWidth) return; // hidden, and drawn once it is seen
    const mine = ++turn;
    const runs = matching(Object.keys(listing.runs), state.runs);
    const run = runs.includes(state.run) ? state.run : (runs[0] ?? '');
    const tags = matching(Object.keys(listing.runs[run] ?? {}), state.tags);
    const tag = tags.includes(state.tag) ? state.tag : (tags[0] ?? '');
    const steps = (tag && listing.runs[run][tag]) || [];
    const step = steps.map(String).includes(state.step) ? state.step : String(steps.at(-1) ?? '');
    chosen = {run, tag, step};
    choices.update({...state, ...chosen}, {runs, tags, steps, damaged: listing.damaged});
    if (!steps.length) {
      main.replaceChildren(element('p', {class: 'empty'}, Object.keys(listing.runs).length ? 'No run or sentence matches the filters.' : EMPTY));
      return;
    }
    try {
      const record = chosen;
      const header = await source.header(record);
      const scene = await makeScene(record, header);
      if (mine === turn) showScene(header, scene);
    } catch (error) {
      if (mine === turn) tellProblem(error);
    }
  }

  /** All that is drawn: tokens, sizes, weights, colours. */
  async function makeScene(record, header) {
    const kind = Object.hasOwn(header.sizes, state.kind) ? state.kind : Object.keys(header.sizes)[0];
    const [layers, heads] = header.sizes[kind];
    const view = Object.hasOwn(VIEWS, state.view) ? state.view : 'grid';
    const place = (text, count) => within(Math.trunc(Number(text)) || 0, 0, count - 1);
    const layer = state.layer === LAST ? layers - 1 : place(state.layer, layers);
    const picked = COMBINED.includes(state.head) ? state.head : place(state.head, heads);
    const wanted = view === 'grid' ? [...Array(layers).keys()] : [layer];
    const all = await Promise.all(wanted.map((number) => source.layer(record, kind, number)));
    const every = [...Array(heads).keys()];
    const [rowSide, columnSide] = [kind === 'encoder' ? 'source' : 'translation', kind === 'decoder' ? 'translation' : 'source'];
    const title = [`${KINDS[kind]} attention`];
    if (view !== 'grid') title.push(`layer ${layer + 1}`);
    if (view === 'heat') title.push(nameOf(picked));
    return {
      record, view, kind, layers, heads, layer, all, picked,
      ...tokensOf(header, kind),
      weights: all[wanted.indexOf(layer)],
      names: {rows: [rowSide, 'attends'], columns: [columnSide, 'attended to']},
      title: title.join(', '),
      shown: state.heads === 'all' ? every : every.filter((head) => state.heads.split('.').includes(String(head))),
      least: within(Number(state.least) || Number(DEFAULTS.least), LEAST.min, LEAST.max),
      alignment: header.alignment,
      cut: header.notice !== null,
      colours: coloursOf(root),
      room: roomOf(main),
    };
  }

  function showScene(header, scene) {
    const focused = focusIn(main);
    const told = element('output', {class: 'told', 'aria-live': 'polite'});
    const frame = element('div', {class: 'picture'});
    const tell = (text) => (told.textContent = text);
    const open = async (layer, picked) => {
      await change({view: 'heat', layer: String(layer), head: String(picked)});
      main.querySelector('.cells')?.focus();
    };
    const drawings = {grid: () => grid(scene, open), heat: () => heatMap(scene, tell), lines: () => lines(scene)};
    const fill = () => {
      const picture = drawings[scene.view]();
      if (scene.view === 'lines') tell(picture.getAttribute('aria-label'));
      frame.replaceChildren(picture);
    };
    if (scene.view === 'heat') tell('Point at a cell, or move with the arrow keys, to see its weight.');
    fill();
    const fewer = (least) => {
      scene.least = least;
      fill();
    };
    main.replaceChildren(
      sentences(header),
      bar(header, scene, frame),
      ...(header.notice ? [element('p', {class: 'notice'}, header.notice)] : []),
      ...(scene.view === 'lines' ? [headSwitches(scene), threshold(scene, fewer, told)] : []),
      ...(scene.view === 'heat' ? [told] : []),
      frame,
    );
    focused?.();
  }

  function sentences(header) {
    const line = (name, ...content) => [element('dt', {}, name), element('dd', {dir: 'auto'}, ...content)];
    const [source, target] = shown(header.source, header.target);
    const chips = (texts, tokens) => texts.map((text, place) => element('span', {class: 'chip', title: tokens[place]}, text));
    return element(
      'dl',
      {class: 'sentences'},
      ...line('source', ...chips(source, header.source)),
      ...line('translation', ...chips(target, header.target)),
      ...(header.reference === null ? [] : line('reference', header.reference)),
    );
  }

  function bar(header, scene, frame) {
    const numbers = (count) => [...Array(count).keys()].map((number) => [number, String(number + 1)]);
    const kinds = Object.keys(KINDS).filter((kind) => Object.hasOwn(header.sizes, kind)).map((kind) => [kind, KINDS[kind]]);
    const {run, tag, step} = scene.record;
    const name = `${tag} step ${step} ${scene.kind}`;
    const facts = {run, tag, step: Number(step), kind: scene.kind, layers: scene.all.length === 1 ? [scene.layer] : scene.all.map((_, layer) => layer)};
    return element(
      'div',
      {class: 'bar'},
      element(
        'div',
        {class: 'tabs', role: 'group', 'aria-label': 'View'},
        ...Object.entries(VIEWS).map(([view, title]) =>
          element('button', {type: 'button', name: `view-${view}`, 'aria-pressed': String(view === scene.view), onclick: () => change({view})}, title),
        ),
      ),
      selection('kind', 'Attention', kinds, scene.kind),
      ...(scene.view === 'grid' ? [] : [selection('layer', 'Layer', numbers(scene.layers), scene.layer)]),
      ...(scene.view === 'heat' ? [selection('head', 'Head', [...numbers(scene.heads), ...COMBINED.map((how) => [how, how])], scene.picked)] : []),
      element('span', {class: 'space'}),
      element(
        'div',
        {class: 'tabs', role: 'group', 'aria-label': 'Save'},
        element('button', {type: 'button', name: 'svg', onclick: () => saveSvg(frame.firstChild, scene, name)}, 'SVG'),
        element('button', {type: 'button', name: 'png', onclick: () => savePng(frame.firstChild, scene, name)}, 'PNG'),
        element('button', {type: 'button', name: 'json', onclick: () => saveJson(facts, scene.all, scene, name)}, 'JSON'),
      ),
    );
  }

  function selection(name, title, options, chosen) {
    return element(
      'label',
      {},
      `${title} `,
      element(
        'select',
        {name, onchange: (event) => change({[name]: event.target.value})},
        ...options.map(([value, text]) => element('option', {value, selected: String(value) === String(chosen)}, text)),
      ),
    );
  }

  function headSwitches(scene) {
    const shown = new Set(scene.shown);
    const keep = (heads) => change({heads: heads.length === scene.heads ? 'all' : heads.join('.') || 'none'});
    return element(
      'fieldset',
      {class: 'heads'},
      element('legend', {}, 'Heads'),
      ...[...Array(scene.heads).keys()].map((head) => {
        const toggle = () => keep([...Array(scene.heads).keys()].filter((other) => shown.has(other) !== (other === head)));
        const box = element('input', {type: 'checkbox', name: `head-${head}`, checked: shown.has(head), onchange: toggle});
        return element('label', {style: `border: 2px ${isDashed(head) ? 'dashed' : 'solid'} ${colourOf(head)}`}, box, String(head + 1));
      }),
      element('button', {type: 'button', name: 'all', onclick: () => keep([...Array(scene.heads).keys()])}, 'all'),
      element('button', {type: 'button', name: 'none', onclick: () => keep([])}, 'none'),
    );
  }

  /** The least weight that has a line: `fewer(least)` draws again while it is moved, `told` says how many there are. */
  function threshold(scene, fewer, told) {
    const number = element('output', {}, scene.least.toFixed(2));
    const slider = element('input', {
      type: 'range', name: 'least', ...LEAST, value: scene.least, 'aria-label': 'Minimum weight of a line',
      oninput: () => {
        number.textContent = Number(slider.value).toFixed(2);
        fewer(Number(slider.value));
      },
      onchange: () => change({least: slider.value}),
    });
    return element('div', {class: 'threshold'}, 'Weights from', slider, number, told);
  }

  function tellProblem(error) {
    main.replaceChildren(element('p', {class: 'problem', role: 'alert'}, error.message));
  }
}

/** Remembers which control has the focus; the function it gives focuses the new one of that name. */
function focusIn(view) {
  const name = view.contains(document.activeElement) && document.activeElement.getAttribute('name');
  return name ? () => view.querySelector(`[name="${CSS.escape(name)}"]`)?.focus() : null;
}

/** What attends, and what is attended to: tokens, and the texts that show them. */
function tokensOf({source, target}, kind) {
  const [sourceTexts, targetTexts] = shown(source, target);
  const [sources, targets] = [[source, sourceTexts], [target, targetTexts]];
  // The decoder's inputs, to which it attends, are the start and each token that it has chosen before.
  const inputs = targets.map((tokens) => [START, ...tokens.slice(0, -1)]);
  const [rows, rowTexts] = kind === 'encoder' ? sources : targets;
  const [columns, columnTexts] = kind === 'decoder' ? inputs : sources;
  return {rows, rowTexts, columns, columnTexts};
}

/** The pixels that a drawing may fill without scrolling. */
function roomOf(main) {
  const style = getComputedStyle(main);
  return {
    width: main.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight),
    height: window.innerHeight - AROUND,
  };
}

/** The colours of drawings, as the style sheet has them. */
function coloursOf(root) {
  const style = getComputedStyle(root);
  return Object.fromEntries(['paper', 'cell', 'ink', 'text', 'faint', 'line', 'mark'].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}
