// The translation, word by word: each shows what it goes with, and offers what else was likely in its place.

import {element} from './attention/drawing.js';
import {offers, tokensOf} from './words.js';

const DWELL = 450; // milliseconds on a word, after which its offer opens
const LEAVE = 300; // and after which it closes again
const percent = (probability) => (probability >= 0.995 ? '> 99 %' : probability < 0.001 ? '< 0.1 %' : `${(100 * probability).toPrecision(2)} %`);

/**
 * Makes the translation of an element and that of its `offer`.
 *
 * `pointed({sentence, word})` is called with the word that the mouse or the focus is on, or null;
 * `wordsFor(sentence, span, signal)` gives what was likely in the place of tokens; `choose(sentence, prefix)` takes it.
 */
export function makeTarget(root, offer, {pointed, wordsFor, choose}) {
  let sentences = [];
  let words = []; // of each sentence its words' elements
  let abilities = {};
  let opened = null; // the element whose offer is open
  let asking = null;
  let timer = null;

  function show(parts, can) {
    close();
    const focused = root.contains(document.activeElement) ? placeOf(document.activeElement) : null;
    abilities = can;
    sentences = parts.filter((part) => typeof part !== 'string');
    words = [];
    root.classList.remove('faded');
    root.replaceChildren(...parts.map((part) => (typeof part === 'string' ? part : drawn(part, words.length))));
    const list = words[focused?.sentence] ?? words[0] ?? [];
    const first = list[Math.min(focused?.word ?? 0, list.length - 1)];
    if (abilities.look || abilities.offer) first?.setAttribute('tabindex', 0);
    if (focused) (first ?? document.getElementById('source')).focus();
  }

  function drawn(sentence, number) {
    const pieces = [];
    let end = 0;
    words.push(
      sentence.words.target.map(({text, start, end: behind}, place) => {
        const buttons = abilities.look || abilities.offer ? {role: 'button', tabindex: -1} : {};
        const menu = abilities.offer ? {'aria-haspopup': 'menu', 'aria-expanded': 'false'} : {};
        const kind = behind <= sentence.fixed ? 'word fixed' : 'word';
        const node = element('span', {class: kind, ...buttons, ...menu, 'data-sentence': number, 'data-word': place}, text);
        pieces.push(sentence.shown.slice(end, start), node);
        end = behind;
        return node;
      }),
    );
    pieces.push(sentence.shown.slice(end));
    return element('span', {class: 'sentence'}, ...pieces);
  }

  function highlight(sentence, places = new Set()) {
    words.forEach((list, number) => list.forEach((node, place) => node.classList.toggle('marked', number === sentence && places.has(place))));
  }

  const placeOf = (node) => ({sentence: Number(node.dataset.sentence), word: Number(node.dataset.word)});
  const wordAt = (event) => event.target.closest?.('.word');

  async function open(node, byKeyboard = false) {
    clearTimeout(timer);
    if (!abilities.offer || (opened === node && !byKeyboard)) return;
    close();
    opened = node;
    node.setAttribute('aria-expanded', 'true');
    asking = new AbortController();
    const {signal} = asking;
    const {sentence: number, word: place} = placeOf(node);
    const sentence = sentences[number];
    fill([element('p', {class: 'hint'}, 'Asking the model…')], node);
    try {
      await pointed({sentence: number, word: place});
      if (signal.aborted) return;
      const word = sentence.words.target[place];
      const span = sentence.seen && tokensOf(word, sentence.seen.target.spans);
      if (!span) return fill([element('p', {class: 'hint'}, 'Nothing is known about this word.')], node);
      const start = Math.min(word.start, sentence.seen.target.spans[span[0]][0]);
      const found = offers((await wordsFor(sentence, span, signal)).words, sentence.shown, start, root.lang || 'und');
      if (signal.aborted) return;
      const none = found.every(({current}) => current) ? [element('p', {class: 'hint'}, 'Nothing else was likely here.')] : [];
      const items = found.map(({word: text, prefix, probability, current}) =>
        element(
          'button',
          {type: 'button', role: 'menuitemradio', tabindex: -1, 'aria-checked': String(current), onclick: () => take(number, prefix, current)},
          element('bdi', {class: 'text'}, text),
          element('span', {class: 'share'}, percent(probability)),
        ),
      );
      fill([...items, ...none], node);
      if (byKeyboard) offer.querySelector('button')?.focus();
    } catch (error) {
      if (!signal.aborted) fill([element('p', {class: 'hint'}, error.message)], node);
    }
  }

  function take(number, prefix, current) {
    const node = opened;
    close();
    node?.focus();
    if (!current) choose(number, prefix);
  }

  /** Shows the offer below its word, within the window. */
  function fill(nodes, node) {
    offer.replaceChildren(...nodes);
    offer.hidden = false;
    put(node);
  }

  function put(node) {
    const [box, pane, size] = [node.getBoundingClientRect(), offer.offsetParent.getBoundingClientRect(), offer.getBoundingClientRect()];
    const left = Math.max(8, Math.min(box.left, document.documentElement.clientWidth - size.width - 8));
    offer.style.left = `${left - pane.left}px`;
    offer.style.top = `${box.bottom - pane.top + 6}px`;
  }

  function close() {
    clearTimeout(timer);
    asking?.abort();
    opened?.setAttribute('aria-expanded', 'false');
    [opened, offer.hidden] = [null, true];
  }

  function step(node, by) {
    const all = words.flat();
    const next = by === 'first' ? all[0] : by === 'last' ? all.at(-1) : all[all.indexOf(node) + by];
    if (!next) return;
    node.setAttribute('tabindex', -1);
    next.setAttribute('tabindex', 0);
    next.focus();
  }

  root.addEventListener('mouseover', (event) => {
    const node = wordAt(event);
    if (!node) return;
    clearTimeout(timer);
    pointed(placeOf(node));
    timer = setTimeout(() => open(node), DWELL);
  });
  root.addEventListener('mouseleave', () => {
    clearTimeout(timer);
    if (!opened) pointed(null);
    else timer = setTimeout(leave, LEAVE);
  });
  offer.addEventListener('mouseenter', () => clearTimeout(timer));
  offer.addEventListener('mouseleave', () => (timer = setTimeout(leave, LEAVE)));

  function leave() {
    if (offer.contains(document.activeElement) || document.activeElement === opened) return;
    close();
    pointed(null);
  }

  root.addEventListener('scroll', () => opened && put(opened));
  root.addEventListener('click', (event) => {
    const node = wordAt(event);
    if (!node) return;
    for (const each of words.flat()) each.setAttribute('tabindex', each === node ? 0 : -1);
    node.focus();
    open(node);
  });
  root.addEventListener('focusin', (event) => wordAt(event) && pointed(placeOf(wordAt(event))));
  root.addEventListener('focusout', (event) => {
    if (root.contains(event.relatedTarget) || offer.contains(event.relatedTarget)) return;
    if (opened) close();
    pointed(null);
  });
  root.addEventListener('keydown', (event) => {
    const node = wordAt(event);
    if (!node) return;
    const forward = root.matches(':dir(rtl)') ? 'ArrowLeft' : 'ArrowRight';
    const by = {ArrowLeft: forward === 'ArrowLeft' ? 1 : -1, ArrowRight: forward === 'ArrowRight' ? 1 : -1, Home: 'first', End: 'last'}[event.key];
    if (by) step(node, by);
    else if (['Enter', ' ', 'ArrowDown'].includes(event.key)) open(node, true);
    else if (event.key === 'Escape') close();
    else return;
    event.preventDefault();
  });
  offer.addEventListener('keydown', (event) => {
    const items = [...offer.querySelectorAll('button')];
    const place = items.indexOf(document.activeElement);
    const next = {ArrowDown: (place + 1) % items.length, ArrowUp: (place - 1 + items.length) % items.length, Home: 0, End: items.length - 1}[event.key];
    if (next !== undefined) items[next]?.focus();
    else if (event.key === 'Escape' || event.key === 'Tab') {
      const node = opened;
      close();
      node?.focus();
    } else return;
    if (event.key !== 'Tab') event.preventDefault();
  });
  document.addEventListener('pointerdown', (event) => {
    if (opened && !offer.contains(event.target) && !root.contains(event.target)) close();
  });
  return {show, highlight, fade: () => root.classList.add('faded')};
}
