// What can be seen of a sentence below its translation: alternatives, attention, the search.

import {show as showAttention} from './attention/app.js';
import {element} from './attention/drawing.js';
import {Address} from './attention/memory.js';
import {Page} from './attention/source.js';
import {tree} from './tree.js';

const TITLES = {alternatives: 'Alternatives', attention: 'Attention', search: 'Search'};

/** What is chosen of the drawings; which sentence they are of, the page says, and an address must keep no earlier one. */
class Drawings extends Address {
  write({run, tag, step, ...chosen}) {
    super.write(chosen);
  }
}

/** Makes the panel. `changed(view)` is called with the view that is chosen, `pick(text)` with an alternative. */
export function makePanel(tabs, root, {changed, pick}) {
  const dark = window.matchMedia('(prefers-color-scheme: dark)');
  const attention = element('div', {class: 'attention'});
  let drawAttention = null;
  const weights = new Page({}); // of the present sentence
  let turn = 0; // an answer that comes late is not shown over a newer one
  let seen = ''; // what is shown
  dark.addEventListener('change', () => {
    attention.classList.toggle('dark', dark.matches);
    drawAttention?.();
  });
  attention.classList.toggle('dark', dark.matches);

  /** Shows a view of a sentence by a model; `views` tells which there are, `ask` has a function for each that asks for it. */
  async function show(wanted, views, model, sentence, ask) {
    const names = Object.keys(TITLES).filter((name) => views[name]);
    const view = names.includes(wanted) ? wanted : names[0];
    drawTabs(names, view);
    const key = JSON.stringify([view, model, sentence.read, sentence.shown, sentence.fixed]);
    if (key === seen && view !== 'alternatives') return;
    seen = key;
    const mine = ++turn;
    const waiting = setTimeout(() => root.classList.add('faded'), 200);
    try {
      const answer = await ask[view]();
      if (mine !== turn) return;
      if (view === 'attention') await fillAttention(answer, sentence);
      else root.replaceChildren(view === 'search' ? tree(answer) : alternatives(answer.alternatives, sentence));
    } catch (error) {
      if (mine !== turn) return;
      seen = '';
      root.replaceChildren(element('p', {class: 'problem'}, error.message));
    } finally {
      clearTimeout(waiting);
      if (mine === turn) root.classList.remove('faded');
    }
  }

  function drawTabs(names, view) {
    const focused = tabs.contains(document.activeElement);
    tabs.replaceChildren(
      ...names.map((name) =>
        element(
          'button',
          {
            type: 'button', role: 'tab', id: `tab-${name}`, 'aria-controls': 'panel', 'aria-selected': String(name === view),
            tabindex: name === view ? 0 : -1, onclick: () => changed(name),
            onkeydown: (event) => {
              const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
              if (by) changed(names[(names.indexOf(name) + by + names.length) % names.length]);
            },
          },
          TITLES[name],
        ),
      ),
    );
    root.setAttribute('aria-labelledby', `tab-${view}`);
    if (focused) tabs.querySelector('[aria-selected="true"]').focus();
  }

  function alternatives(list, sentence) {
    const best = Math.max(...list.map(({score}) => score));
    return element(
      'div',
      {},
      element(
        'ol',
        {class: 'alternatives'},
        ...list.map(({text, score}) =>
          element(
            'li',
            {},
            element(
              'button',
              {type: 'button', 'aria-pressed': String(text === sentence.shown), onclick: () => text !== sentence.shown && pick(text)},
              element('span', {class: 'text', dir: 'auto'}, text),
              element('meter', {min: 0, max: 1, value: Math.exp(score - best), 'aria-hidden': 'true'}),
              element('span', {class: 'score'}, score.toFixed(2).replace('-', '−')),
            ),
          ),
        ),
      ),
      element('p', {class: 'hint'}, 'The score is the log-probability divided by the length penalty: the closer to 0, the likelier.'),
    );
  }

  function fillAttention(record, sentence) {
    weights.records = {model: {[sentence.source]: {0: record}}};
    root.replaceChildren(attention);
    drawAttention ??= showAttention(attention, weights, new Drawings(window, 'a.')).reload;
    return drawAttention();
  }

  return {show};
}
