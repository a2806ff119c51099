// Requests to the server: what went wrong is told in words, and what may pass is tried again.

const TRIES = 6;
const LONGEST_WAIT = 20; // seconds
const STARTING = 'The server is starting.';
const KEY = 'tf-transformer.key';

/** What the server refused. `status` is 0 where it could not be reached. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/**
 * Asks the server, again where it is busy, starting or out of reach; gives its JSON.
 *
 * `tell(text)` is called with what it waits for. A `signal` that is aborted ends it with an AbortError.
 */
export async function ask(path, body, {signal, tell = () => {}} = {}) {
  for (let tried = 1; ; tried++) {
    const refused = await once(path, body, signal);
    if (!(refused instanceof Refused)) return refused;
    const passes = [0, 429, 502, 503, 504].includes(refused.status);
    // A server that starts is ready in a minute or two, whatever it answers until then.
    if (!passes || (tried >= TRIES && refused.message !== STARTING)) throw refused;
    const seconds = Math.min(LONGEST_WAIT, refused.after ?? 2 ** (tried - 1));
    tell(`${refused.message} Trying again${seconds > 1 ? ` in ${seconds} seconds` : ''}…`);
    await pause(seconds, signal);
  }
}

async function once(path, body, signal) {
  const key = sessionStorage.getItem(KEY);
  const headers = {...(body ? {'Content-Type': 'application/json'} : {}), ...(key ? {Authorization: `Bearer ${key}`} : {})};
  let answer;
  try {
    answer = await fetch(path, {method: body ? 'POST' : 'GET', headers, body: body && JSON.stringify(body), signal});
    if (answer.ok) return await answer.json();
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    return new Refused(0, navigator.onLine ? 'The server can’t be reached.' : 'You are offline.');
  }
  const told = await answer.json().catch(() => ({}));
  const refused = new Refused(answer.status, inWords(answer.status, told.error));
  const after = Number(answer.headers.get('Retry-After'));
  if (after > 0) refused.after = after;
  return refused;
}

function inWords(status, told) {
  if (status === 429) return 'The server is busy.';
  if (status === 503) return /starting/.test(told) ? STARTING : /draining/.test(told) ? 'The server is shutting down.' : 'The server is busy.';
  if (status === 502 || status === 504) return 'The server does not respond.';
  if (status === 413) return 'This text is too long for one request.';
  if (status === 401) return 'This server requires an API key.';
  if (status === 403) return 'The server does not accept this key.';
  if (status >= 500) return 'An error occurred on the server; its log has the details.';
  return told ? `${told[0].toUpperCase()}${told.slice(1)}${/[.!?]$/.test(told) ? '' : '.'}` : `The server answered ${status}.`;
}

/** Waits; shorter where the network comes back meanwhile. */
function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      window.removeEventListener('online', end);
      signal?.removeEventListener('abort', stop);
      resolve();
    };
    const stop = () => {
      end();
      reject(new DOMException('no longer wanted', 'AbortError'));
    };
    const timer = setTimeout(end, 1000 * seconds);
    window.addEventListener('online', end);
    signal?.addEventListener('abort', stop);
    if (signal?.aborted) stop();
  });
}

/** Keeps the server's key until the tab is closed. A key is printable ASCII; others are refused here, since `fetch` sends none. */
export function useKey(key) {
  if (!/^[ -~]*$/.test(key)) throw new Refused(403, inWords(403));
  sessionStorage.setItem(KEY, key);
}
