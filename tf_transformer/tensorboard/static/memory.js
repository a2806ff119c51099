// What is shown, kept in a window's address, so that a link shows the same.

/** The values whose names begin with `prefix` in the fragment of a window's address; the rest is left as it is. */
export class Address {
  constructor(owner, prefix) {
    this.owner = owner;
    this.prefix = prefix;
  }

  read() {
    const ours = this.parts().filter((part) => part && part.startsWith(this.prefix));
    const pairs = ours.map((part) => part.slice(this.prefix.length).split('='));
    return Object.fromEntries(pairs.map(([name, value]) => [name, decoded(value ?? '')]));
  }

  write(values) {
    const others = this.parts().filter((part) => part && !part.startsWith(this.prefix));
    const ours = Object.entries(values).map(([name, value]) => `${this.prefix}${name}=${encodeURIComponent(value)}`);
    try {
      this.owner.history.replaceState(this.owner.history.state, '', `#${[...others, ...ours].join('&')}`);
    } catch (error) {
      if (error.name !== 'SecurityError') throw error; // a frame in a notebook has no address of its own
    }
  }

  /** Calls back when somebody else has changed our values, as by a link that is followed. */
  onChange(changed) {
    this.owner.addEventListener('hashchange', () => {
      const values = this.read();
      if (Object.keys(values).length) changed(values);
    });
  }

  parts() {
    return this.owner.location.hash.slice(1).split('&');
  }
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
