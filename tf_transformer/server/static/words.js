// Words of a text, and which words of two texts go together.

/** The words and marks of a text: [{text, start, end}], blanks left out. Scripts without blanks are split too. */
export function wordsOf(text, language) {
  return [...segmenter(language).segment(text)]
    .filter(({segment}) => segment.trim())
    .map(({segment, index}) => ({text: segment, start: index, end: index + segment.length}));
}

const segmenters = new Map();

function segmenter(language) {
  if (!segmenters.has(language)) {
    let made;
    try {
      made = new Intl.Segmenter(language === 'und' ? undefined : language, {granularity: 'word'});
    } catch {
      made = new Intl.Segmenter(undefined, {granularity: 'word'}); // no language that the browser knows
    }
    segmenters.set(language, made);
  }
  return segmenters.get(language);
}

/** The tokens of a word, as places among spans: the first, and the one behind the last; null where it has none. */
export function tokensOf(word, spans) {
  const places = spans.flatMap((span, place) => (span && span[0] < word.end && word.start < span[1] ? [place] : []));
  return places.length ? [places[0], places.at(-1) + 1] : null;
}

/** What is known of a sentence, with the places in its source counted from behind its language tags, `length` characters. */
export function withoutTags(seen, length) {
  return {...seen, source: {...seen.source, spans: seen.source.spans.map((span) => span?.map((place) => place - length))}};
}

/** The places of target words for each source word, and the other way round: {source: [Set], target: [Set]}. */
export function align(sourceWords, targetWords, {source, target, alignment}) {
  const aligned = {source: sourceWords.map(() => new Set()), target: targetWords.map(() => new Set())};
  const holding = (words, span) => (span ? words.flatMap((word, place) => (span[0] < word.end && word.start < span[1] ? [place] : [])) : []);
  alignment.forEach((from, to) => {
    if (from < 0) return;
    for (const targetPlace of holding(targetWords, target.spans[to])) {
      for (const sourcePlace of holding(sourceWords, source.spans[from])) {
        aligned.target[targetPlace].add(sourcePlace);
        aligned.source[sourcePlace].add(targetPlace);
      }
    }
  });
  return aligned;
}

const MOST = 6; // words that are offered
const LEAST = 0.001; // their probability

/**
 * What is offered in the place of a word that begins at `start`: [{word, prefix, probability, current}].
 *
 * `found` is the server's, likeliest first; each translation has the same beginning, up to `start`. What would go on with
 * the word before is no offer for this one.
 */
export function offers(found, translation, start, language) {
  const base = translation.slice(0, start).trimEnd();
  const own = prefixAt(translation, base, language);
  const offered = new Map();
  for (const {translation: other, probability} of found) {
    const prefix = other.startsWith(base) ? prefixAt(other, base, language) : null;
    if (!prefix || prefix.goesOn || offered.has(prefix.text) || probability < LEAST) continue;
    offered.set(prefix.text, {word: prefix.word, prefix: prefix.text, probability, current: prefix.text === own?.text});
  }
  return [...offered.values()].slice(0, MOST);
}

/** The beginning of a text up to the end of the first word behind `base`, that word, and whether it began before. */
function prefixAt(text, base, language) {
  const word = wordsOf(text, language).find(({end}) => end > base.length);
  return word ? {text: text.slice(0, word.end), word: word.text, goesOn: word.start < base.length} : null;
}
