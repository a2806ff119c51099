// How tokens are shown. Tokenizers tell in different ways where a word begins and where it goes on; here a word begins
// bare, and what goes on with it has a dot before it. tf_transformer/inspection/pieces.py does the same for pictures.

const BLANK = '\u2581'; // SentencePiece: a blank, as it stands before a word
const GOES_ON = '##'; // WordPiece: no blank here
export const DOT = '·';
const CONTROLS = ['<pad>', '<unk>', '<s>', '</s>'];

/** One text for each token of a sentence and its translation, or its tree: gives the texts of each side. */
export function shown(...sides) {
  const anyBlanks = sides.some(hasBlanks);
  return sides.map((tokens) => tokens.map(anyBlanks && !isTree(tokens) ? sentencePiece : wordPiece));
}

function hasBlanks(tokens) {
  return tokens.some((token) => token.startsWith(BLANK));
}

/** Whether they are a parser's, which may have been stopped before the closing token. Each is a word. */
function isTree(tokens) {
  const opens = tokens.length > 0 && tokens[0].startsWith('(');
  return !hasBlanks(tokens) && (opens || tokens.includes('[END]'));
}

function wordPiece(token) {
  return token.startsWith(GOES_ON) && token !== GOES_ON ? DOT + token.slice(GOES_ON.length) : token;
}

function sentencePiece(token) {
  if (CONTROLS.includes(token)) return token;
  if (!token.startsWith(BLANK)) return DOT + token;
  const word = token.slice(BLANK.length);
  return ([...word].every((character) => character === BLANK) ? token : word).replaceAll(BLANK, '␣');
}
