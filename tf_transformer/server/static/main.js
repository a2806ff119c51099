// The page: what is typed is translated, and a sentence of it can be looked into. Its state is in the address.

import {element} from './attention/drawing.js';
import {Address} from './attention/memory.js';
import {ask, useKey} from './api.js';
import {makePanel} from './panel.js';
import {makeSource} from './source.js';
import {makeTarget} from './target.js';
import {align, withoutTags, wordsOf} from './words.js';

const TYPING = 250; // milliseconds without a key, after which what is typed is translated
const PATIENCE = 400; // milliseconds, after which it is told that a translation is waited for
const KEPT = 200; // answers about sentences

const byId = (id) => document.getElementById(id);
const memory = new Address(window, 't.');
const status = byId('status');

let server = {models: [], maxCharacters: Infinity};
let model = null;
let text = '';
let at = 0; // the sentence that is looked into
let view = '';
let parts = ['']; // in turn what stands between sentences, and a sentence {source, read, text, score, truncated, behind}
let translatedText = ''; // whose translation is shown
let tagged = 0; // characters of the language tags in front, which are no part
let choices = new Map(); // by what the model read of a sentence: {prefix}, what its translation must begin with, or {text}, an alternative
let asking = null; // of the translation under way
let timer = null;
const answers = new Map();

const source = makeSource(byId('source'), byId('behind'), {typed, pointed: (place) => pointAt('source', place)});
const target = makeTarget(byId('target'), byId('offer'), {
  pointed: (place) => pointAt('target', place),
  wordsFor: (sentence, [start, end], signal) => ask('page/words', {model: model.name, source: sentence.read, ids: sentence.seen.ids, start, end}, {signal}),
  choose: (place, prefix) => choose(place, {prefix}),
});
const panel = makePanel(byId('tabs'), byId('panel'), {
  changed: (name) => {
    view = name;
    remember();
    showPanel();
  },
  pick: (alternative) => choose(at, {...choiceOf(sentences()[at]), text: alternative}),
});

start();

async function start() {
  try {
    server = await ask('page/models', null, {tell: say});
  } catch (error) {
    return say(error.message, true);
  }
  if (!server.models.length) return say('This server has no translation model.', true);
  say('');
  byId('model').append(...server.models.map(({name, source: from, target: to}) => element('option', {value: name}, from.code === 'und' ? name : `${from.name} to ${to.name}, ${name}`)));
  byId('model-label').hidden = server.models.length < 2;
  restore();
  memory.onChange(restore);
}

/** Takes the state from the address. */
function restore() {
  const kept = memory.read();
  model = server.models.find(({name}) => name === kept.model) ?? server.models[0];
  byId('model').value = model.name;
  nameModel();
  [text, at, view] = [kept.text ?? text, Number(kept.at) || 0, kept.view ?? ''];
  source.write(text);
  choices = new Map();
  // Whose they are is known once the text has been split into sentences.
  const numbered = (name) => Object.fromEntries(Object.entries(kept).flatMap(([key, value]) => (key.startsWith(`${name}.`) ? [[key.slice(name.length + 1), value]] : [])));
  translate({prefixes: numbered('from'), texts: numbered('as')});
}

/** Keeps the state in the address. */
function remember() {
  const values = text ? {text} : {};
  if (model !== server.models[0]) values.model = model.name;
  if (at) values.at = at;
  if (view) values.view = view;
  sentences().forEach((sentence, place) => {
    const choice = choiceOf(sentence);
    if (choice.prefix) values[`from.${place}`] = choice.prefix;
    if (choice.text) values[`as.${place}`] = choice.text;
  });
  memory.write(values);
}

function sentences() {
  return parts.filter((part) => typeof part !== 'string');
}

function choiceOf(sentence) {
  return choices.get(sentence?.read) ?? {};
}

function typed(value) {
  text = value;
  clearTimeout(timer);
  asking?.abort();
  target.fade();
  timer = setTimeout(translate, TYPING);
}

/** Translates what is typed. `restored` has the choices of an address, by the number of their sentence. */
async function translate(restored = null) {
  clearTimeout(timer);
  if (!model) return; // what is typed before the models are known is translated then
  asking?.abort();
  asking = new AbortController();
  const {signal} = asking;
  countCharacters();
  byId('clear').hidden = !text;
  if (characters() > server.maxCharacters) {
    forget();
    return say(`The text has ${characters().toLocaleString('en')} characters; at most ${server.maxCharacters.toLocaleString('en')} are allowed.`, true);
  }
  const waiting = setTimeout(() => say('Translating…'), PATIENCE);
  const tellWhy = (told) => {
    clearTimeout(waiting);
    say(told);
  };
  try {
    let found = {parts: ['']};
    if (text.trim()) {
      const prefixes = restored?.prefixes ?? numberedPrefixes();
      found = await ask('page/translate', {model: model.name, text, prefixes}, {signal, tell: tellWhy});
      const stale = restored ? null : missedPrefixes(found.parts, prefixes);
      // Sentences have moved or changed: what was chosen for one of them goes with it, and stays for no other.
      if (stale) found = await ask('page/translate', {model: model.name, text, prefixes: stale}, {signal, tell: tellWhy});
    }
    if (signal.aborted) return;
    model.version = found.version ?? model.version; // a newer one may have been loaded
    [parts, tagged] = [found.parts, found.tagged ?? 0];
    translatedText = text;
    sentences().forEach((sentence, place) => {
      const [prefix, as] = [restored?.prefixes[place], restored?.texts[place]];
      if (prefix || as) choices.set(sentence.read, {...(prefix ? {prefix} : {}), ...(as ? {text: as} : {})});
    });
    say('');
    showAll();
  } catch (error) {
    if (error.name === 'AbortError') return;
    forget();
    say(error.message, true);
    if (error.status === 401 || error.status === 403) askForKey();
  } finally {
    clearTimeout(waiting);
  }
}

/** Takes away a translation of another text than the one that is typed. */
function forget() {
  if (translatedText === text) return;
  [parts, tagged, translatedText] = [[''], 0, ''];
  showAll();
}

/** The prefixes of the sentences as they were, by number. */
function numberedPrefixes() {
  return prefixesIn(sentences());
}

function prefixesIn(list) {
  return Object.fromEntries(list.flatMap((sentence, place) => (choiceOf(sentence).prefix ? [[place, choiceOf(sentence).prefix]] : [])));
}

/** The prefixes as they should have been sent, which may be none; null if they were. */
function missedPrefixes(found, sent) {
  const wanted = prefixesIn(found.filter((part) => typeof part !== 'string'));
  return JSON.stringify(wanted) === JSON.stringify(sent) ? null : wanted;
}

/** The parts with what stands behind each translation in the place of what stands behind its source. */
function translated() {
  return parts.map((part, place) => parts[place - 1]?.behind ?? part);
}

function translation() {
  return translated().map((part) => part.shown ?? part).join('');
}

function showAll() {
  const list = sentences();
  at = Math.min(at, Math.max(0, list.length - 1));
  let place = tagged;
  for (const part of parts) {
    if (typeof part !== 'string') {
      const choice = choiceOf(part);
      part.shown = choice.text ?? part.text;
      part.fixed = (choice.text ?? choice.prefix ?? '').length; // characters that were chosen
      part.start = place;
      part.seen = null;
      part.words = {source: wordsOf(part.source, model.source.code), target: wordsOf(part.shown, model.target.code)};
    }
    place += (part.source ?? part).length;
  }
  source.mark(list);
  target.show(translated(), {look: model.attention, offer: model.words && model.prefix});
  const written = translation();
  for (const id of ['copy', 'share']) byId(id).hidden = !written.trim();
  byId('said').textContent = written;
  byId('served').textContent = list.length ? `Translated by ${model.name}, version ${model.version}.` : '';
  const cut = list.filter(({truncated}) => truncated).length;
  if (cut) say('A sentence is too long for the model: the part beyond its limit was left out.', true);
  else if (list.some(({fixed}) => fixed)) offerUndo();
  else if (list.length && !model.prefix) say('This model only translates: in its format, attention and search can’t be shown.');
  remember();
  showPanel();
}

/** What is known of a sentence: tokens, alignment, alternatives. */
async function look(place) {
  const sentence = sentences()[place];
  const query = {model: model.name, source: sentence.read, target: sentence.shown, prefix: choiceOf(sentence).prefix ?? ''};
  const key = JSON.stringify([model.version, query]);
  if (!answers.has(key)) {
    const answer = ask('page/sentence', query);
    answers.set(key, answer);
    answer.catch(() => answers.delete(key));
    if (answers.size > KEPT) answers.delete(answers.keys().next().value);
  }
  const seen = await answers.get(key);
  if (seen.alignment && !sentence.seen) {
    sentence.seen = seen;
    sentence.aligned = align(sentence.words.source, sentence.words.target, withoutTags(seen, sentence.read.length - sentence.source.length));
  }
  return seen;
}

/** Shows what goes with a word: {sentence, word}, by their numbers; null for no word. */
async function pointAt(side, place) {
  const clear = () => {
    source.highlight(null);
    target.highlight(null);
  };
  if (!place) return clear();
  const sentence = sentences()[place.sentence];
  if (!sentence || !model.attention) return clear();
  if (place.sentence !== at) {
    at = place.sentence;
    remember();
    showPanel();
  }
  try {
    if (!sentence.seen) await look(place.sentence);
  } catch (error) {
    return say(error.message, true);
  }
  if (sentences()[place.sentence] !== sentence || !sentence.aligned) return;
  const others = sentence.aligned[side][place.word] ?? new Set();
  const own = new Set([place.word]);
  source.highlight(place.sentence, side === 'source' ? own : others);
  target.highlight(place.sentence, side === 'target' ? own : others);
  reveal(side === 'source' ? byId('target') : byId('behind').parentElement);
}

/** Scrolls a box, and not the page, to the word that is marked in it. */
function reveal(box) {
  const [mark, view] = [box.querySelector('.marked'), box].map((node) => node?.getBoundingClientRect());
  if (mark && (mark.top < view.top || mark.bottom > view.bottom)) box.scrollTop += mark.top - view.top - view.height / 2;
}

/** Translates on from a prefix, or takes an alternative. */
function choose(place, choice) {
  const sentence = sentences()[place];
  at = place;
  choices.set(sentence.read, choice);
  if (choice.text) return showAll();
  target.fade();
  return translate();
}

async function showPanel() {
  const sentence = sentences()[at];
  const views = {alternatives: model.prefix, attention: model.attention, search: model.search};
  const about = byId('about');
  byId('explore').hidden = !sentence?.shown || !Object.values(views).some(Boolean);
  if (byId('explore').hidden) return;
  about.hidden = sentences().length < 2;
  about.textContent = sentence.source;
  const prefix = choiceOf(sentence).prefix ?? '';
  const asked = {model: model.name, source: sentence.read, target: sentence.shown, prefix};
  await panel.show(view, views, [model.name, model.version], sentence, {
    alternatives: () => look(at),
    attention: () => ask('page/attention', asked),
    search: () => ask('page/search', asked),
  });
}

function nameModel() {
  for (const side of ['source', 'target']) {
    const {code, name} = model[side];
    const known = code !== 'und';
    byId(`${side}-name`).textContent = known ? name : {source: 'Source', target: 'Translation'}[side];
    if (known) byId(side).lang = code;
    else byId(side).removeAttribute('lang');
  }
}

function say(told, isProblem = false) {
  status.classList.toggle('problem', isProblem);
  status.textContent = told;
}

function offerUndo() {
  const undo = () => {
    sentences().forEach(({read: key}) => choices.delete(key));
    translate();
  };
  status.classList.remove('problem');
  status.replaceChildren('You have chosen words here. ', element('button', {type: 'button', class: 'link', id: 'undo', onclick: undo}, 'Back to the model’s own translation'));
}

/** The text's characters as the server counts them: an emoji, which is two of JavaScript's units, is one. */
function characters() {
  return [...text].length;
}

function countCharacters() {
  byId('count').textContent = text ? `${characters().toLocaleString('en')} of ${server.maxCharacters.toLocaleString('en')} characters` : '';
}

function askForKey() {
  byId('key').hidden = false;
  byId('key').reset();
  byId('key').elements.key.focus();
}

byId('key').addEventListener('submit', (event) => {
  event.preventDefault();
  try {
    useKey(byId('key').elements.key.value);
  } catch (error) {
    say(error.message, true);
    return askForKey();
  }
  byId('key').hidden = true;
  translate();
});

byId('model').addEventListener('change', (event) => {
  model = server.models.find(({name}) => name === event.target.value);
  choices = new Map();
  nameModel();
  translate();
});

byId('clear').addEventListener('click', () => {
  text = '';
  source.write('');
  byId('source').focus();
  translate();
});

async function copied(button, value) {
  const name = (button.dataset.name ??= button.textContent); // which is "Copied" for a while
  try {
    await navigator.clipboard.writeText(value);
  } catch {
    // Without HTTPS a browser has no clipboard to offer but this.
    const area = element('textarea', {class: 'unseen'});
    area.value = value;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
    button.focus();
  }
  button.textContent = 'Copied';
  setTimeout(() => (button.textContent = name), 1500);
}

byId('copy').addEventListener('click', (event) => copied(event.target, translation()));
byId('share').addEventListener('click', (event) => {
  remember();
  copied(event.target, window.location.href);
});
