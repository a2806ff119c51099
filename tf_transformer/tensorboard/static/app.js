// The page: choices on the left, the view on the right. Its state is one flat object of strings.

import {makeChoices, matching} from './choices.js';
import {colourOf, element, isDashed} from './drawing.js';
import {grid} from './grid.js';
import {heatMap} from './heatmap.js';
import {lines} from './lines.js';
import {saveJson, savePng, saveSvg} from './saving.js';
import {COMBINED} from './weights.js';

const KINDS = {cross: 'encoder–decoder', encoder: 'encoder self', decoder: 'decoder self'};
const VIEWS = {grid: 'Grid', heat: 'Heat map', lines: 'Lines'};
const DEFAULTS = {run: '', tag: '', step: '', kind: 'cross', view: 'grid', layer: '0', head: '0', heads: 'all', runs: '', tags: ''};
const EMPTY = 'No attention here yet. Train with the callback AttentionBoard, or run: tf-transformer inspect MODEL "a sentence" --logdir DIR';

/**
 * Shows attention in an element.
 *
 * `source` gives it (source.js), `memory` keeps what is shown (memory.js). Returns {draw}, which draws everything anew.
 */
export function show(root, source, memory) {
  const state = {...DEFAULTS, ...memory.read()};
  let chosen = {}; // run, tag and step: the state's, or where it names none that is there, the first and newest
  let listing = {runs: {}, damaged: {}};
  let turn = 0; // of drawing: an answer that comes late is not drawn over a newer one
  const choices = makeChoices(change, reload);
  const view = element('main', {class: 'view'});
  root.replaceChildren(choices.node, view);
  memory.onChange((values) => {
    Object.assign(state, DEFAULTS, values);
    draw();
  });
  reload();
  return {draw};

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
      view.replaceChildren(element('p', {class: 'empty'}, Object.keys(listing.runs).length ? 'No run or sentence has such a name.' : EMPTY));
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
    const within = (text, count) => Math.min(Math.max(0, Math.trunc(Number(text)) || 0), count - 1);
    const layer = within(state.layer, layers);
    const wanted = view === 'grid' ? [...Array(layers).keys()] : [layer];
    const all = await Promise.all(wanted.map((number) => source.layer(record, kind, number)));
    const every = [...Array(heads).keys()];
    return {
      record, view, kind, layers, heads, layer, all,
      weights: all[wanted.indexOf(layer)],
      rows: kind === 'encoder' ? header.source : header.target,
      columns: kind === 'decoder' ? header.target : header.source,
      picked: COMBINED.includes(state.head) ? state.head : within(state.head, heads),
      shown: state.heads === 'all' ? every : every.filter((head) => state.heads.split('.').includes(String(head))),
      alignment: header.alignment,
      cut: header.notice !== null,
      colours: coloursOf(root),
    };
  }

  function showScene(header, scene) {
    const focused = focusIn(view);
    const told = element('output', {class: 'told', 'aria-live': 'polite'});
    const tell = (text) => (told.textContent = text);
    const open = async (layer, picked) => {
      await change({view: 'heat', layer: String(layer), head: String(picked)});
      view.querySelector('.cells')?.focus();
    };
    const draw = {grid: () => grid(scene, open), heat: () => heatMap(scene, tell), lines: () => lines(scene)};
    const picture = draw[scene.view]();
    if (scene.view === 'lines') tell(picture.getAttribute('aria-label'));
    view.replaceChildren(
      sentences(header),
      bar(header, scene, picture),
      ...(header.notice ? [element('p', {class: 'notice'}, header.notice)] : []),
      ...(scene.view === 'lines' ? [headSwitches(scene)] : []),
      ...(scene.view === 'grid' ? [] : [told]),
      element('div', {class: 'picture'}, picture),
    );
    focused?.();
  }

  function sentences(header) {
    const line = (name, ...content) => [element('dt', {}, name), element('dd', {dir: 'auto'}, ...content)];
    const chips = (tokens) => tokens.map((token) => element('span', {class: 'chip'}, token));
    return element(
      'dl',
      {class: 'sentences'},
      ...line('source', ...chips(header.source)),
      ...line('translation', ...chips(header.target)),
      ...(header.reference === null ? [] : line('reference', header.reference)),
    );
  }

  function bar(header, scene, picture) {
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
        element('button', {type: 'button', name: 'svg', onclick: () => saveSvg(picture, name)}, 'SVG'),
        element('button', {type: 'button', name: 'png', onclick: () => savePng(picture, name)}, 'PNG'),
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

  function tellProblem(error) {
    view.replaceChildren(element('p', {class: 'problem', role: 'alert'}, error.message));
  }
}

/** Remembers which control has the focus; the function it gives focuses the new one of that name. */
function focusIn(view) {
  const name = view.contains(document.activeElement) && document.activeElement.getAttribute('name');
  return name ? () => view.querySelector(`[name="${CSS.escape(name)}"]`)?.focus() : null;
}

/** The colours of drawings, as the style sheet has them. */
function coloursOf(root) {
  const style = getComputedStyle(root);
  return Object.fromEntries(['paper', 'cell', 'ink', 'text', 'faint', 'line', 'mark'].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}
