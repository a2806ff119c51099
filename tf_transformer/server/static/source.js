// The text that is typed. Words are marked in a copy of it that lies behind the field, letter on letter.

import {element} from './attention/drawing.js';

/**
 * Makes the source of a text area and the copy `behind` it.
 *
 * `typed(text)` is called with what is typed, `pointed({sentence, word})` with the word that the mouse or the caret is
 * on, or null.
 */
export function makeSource(area, behind, {typed, pointed}) {
  let sentences = [];
  let words = []; // of each sentence the elements behind its words
  let last = '';

  function write(text) {
    area.value = text;
    copy([]);
  }

  /** Lays the text behind the field, with an element for each word of the sentences. */
  function copy(list) {
    sentences = list;
    const text = area.value;
    const pieces = [];
    let end = 0;
    words = sentences.map((sentence, number) =>
      sentence.words.source.map((word, place) => {
        const [from, to] = [sentence.start + word.start, sentence.start + word.end];
        const node = element('span', {'data-sentence': number, 'data-word': place}, text.slice(from, to));
        pieces.push(text.slice(end, from), node);
        end = to;
        return node;
      }),
    );
    // A line break at the end would take no line by itself.
    behind.replaceChildren(...pieces, `${text.slice(end)}\u200b`);
  }

  function highlight(sentence, places = new Set()) {
    words.forEach((list, number) => list.forEach((node, place) => node.classList.toggle('marked', number === sentence && places.has(place))));
  }

  function point(place) {
    const key = JSON.stringify(place);
    if (key === last) return;
    last = key;
    pointed(place);
  }

  area.addEventListener('input', () => {
    copy([]);
    last = '';
    typed(area.value);
  });
  area.addEventListener('mousemove', ({clientX, clientY}) => {
    const node = document.elementsFromPoint(clientX, clientY).find((each) => each.dataset.word !== undefined && behind.contains(each));
    point(node ? {sentence: Number(node.dataset.sentence), word: Number(node.dataset.word)} : null);
  });
  area.addEventListener('mouseleave', () => point(null));
  document.addEventListener('selectionchange', () => {
    if (document.activeElement !== area || !sentences.length) return;
    const caret = area.selectionStart;
    for (const [number, sentence] of sentences.entries()) {
      const word = sentence.words.source.findIndex(({start, end}) => sentence.start + start <= caret && caret <= sentence.start + end);
      if (word >= 0) return point({sentence: number, word});
    }
    point(null);
  });
  area.addEventListener('blur', () => point(null));
  return {write, mark: copy, highlight};
}
