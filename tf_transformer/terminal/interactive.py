"""A prompt that translates what is typed: history, line editing, and commands that begin with a colon."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tf_transformer.errors import UserError
from tf_transformer.files.home import below_home
from tf_transformer.session.loading import session_loader
from tf_transformer.terminal.arguments import check_is_no_file, given, in_the_users_words, newest_version
from tf_transformer.terminal.notes import notes
from tf_transformer.terminal.process import quiet_tensorflow

if TYPE_CHECKING:
    from tf_transformer.inspection.sentence import Attend

PROMPT = "> "

# What a model translates when it is loaded: what is run for the first time is set up first, which takes longer.
FIRST = "."

HISTORY_LINES = 1000

HELP = """\
A line is translated. A line that begins with a colon is a command:
  :nbest N      show N translations of each line, with their scores
  :attention    show which words each translated word attends to; again: stop
  :model PATH   translate with another model; several paths: with all of them, as an ensemble
  :help         show this
  :quit         quit; so does Ctrl-D
Ctrl-C cancels a line."""


class Conversation:
    """What answers the lines.

    Args:
        models: a run, a checkpoint or a SavedModel; with another engine its own format. Or several runs or checkpoints,
            for an ensemble.
        changes: decoding options in place of the model's.
        engine: as `tf_transformer.translation.load_translate` takes it.

    Raises:
        UserError: the model can't be loaded, or an option can't be.
    """

    def __init__(self, models: Sequence[Path], changes: dict[str, Any], engine: str) -> None:
        self.engine = engine
        self._attend: Attend | None = None
        self._load(models, changes)

    def answer(self, line: str) -> Iterator[str]:
        """The lines of the answer to a line.

        Raises:
            UserError: it is a command that can't be carried out; all stays as it was.
            EOFError: it is the command to leave.
        """
        line = line.strip()
        if line.startswith(":"):
            name, _, argument = line[1:].partition(" ")
            command = COMMANDS.get(name)
            if command is None:
                raise UserError(f"unknown command :{name}; :help lists the commands")
            yield command(self, argument.strip())
        elif line:
            yield from self._translation(line)

    def _load(self, models: Sequence[Path], changes: dict[str, Any]) -> str:
        """Loads what translates and makes it ready; it is what answers once all of that has gone well."""
        from tf_transformer.translation.loading import check_are_models

        start = time.perf_counter()
        for model in models:
            check_is_no_file(model)
        check_are_models(models, self.engine)
        load = session_loader(models, self.engine)
        with quiet_tensorflow(streams=True, session=load is not None):
            from tf_transformer.translation.loading import load_translate
            from tf_transformer.translation.texts import translate_texts

        translate = load_translate(models, changes, self.engine, load)
        list(translate_texts(translate, [FIRST]))
        attend = self._load_attend(models) if self._attend else None
        self.models, self.changes = models, changes
        self._translate, self._attend = translate, attend
        return f"{_names(models)}: ready in {time.perf_counter() - start:.1f} s"

    def _load_attend(self, models: Sequence[Path]) -> Attend:
        from tf_transformer.inspection.sentence import inspect, load_attend

        attend = load_attend(models, session_loader(models))
        inspect(attend, [FIRST])
        return attend

    def _translation(self, line: str) -> Iterator[str]:
        from tf_transformer.translation.texts import translate_texts

        (found,) = translate_texts(self._translate, [line])
        if found.truncated:
            yield "(only the beginning of the line, up to the model's maximum length)"
        if "num_hypotheses" in self.changes:
            for text, score in (found.text, found.score), *found.others:
                yield f"{score:.4f}  {text}"
        else:
            yield found.text
        if self._attend:
            yield from self._alignment(line, found.text)

    def _alignment(self, line: str, translation: str) -> Iterator[str]:
        from tf_transformer.inspection.sentence import inspect
        from tf_transformer.inspection.words import aligned_words

        (seen,) = inspect(self._attend, [line])
        if seen.translation != translation:
            yield f"  words of the model's own best translation: {seen.translation}"
        words = aligned_words(seen)
        width = max((len(word.text) for word in words), default=0)
        for word in words:
            yield f"  {word.text:{width}}  ←  {' '.join(word.sources)}".rstrip()

    def _set_nbest(self, argument: str) -> str:
        # Python makes no number of thousands of digits.
        if not argument.isdecimal() or len(argument) > 4 or not int(argument):
            raise UserError(f":nbest {argument}: give the number of translations to show, such as :nbest 3")
        changes = {name: value for name, value in self.changes.items() if name != "num_hypotheses"}
        return self._load(self.models, changes | given(num_hypotheses=int(argument) if int(argument) > 1 else None))

    def _switch_attention(self, argument: str) -> str:
        if argument:
            raise UserError(":attention takes no argument; give it again to stop")
        self._attend = None if self._attend else self._load_attend(self.models)
        return (
            "translated words are now shown with the words they attend to"
            if self._attend
            else "attention is no longer shown"
        )

    def _switch_model(self, argument: str) -> str:
        if not argument:
            raise UserError(":model takes the folder of a run or of a SavedModel, or a checkpoint")
        whole = below_home(argument)  # which may have blanks in its name
        models = [whole] if os.path.exists(whole) else [below_home(each) for each in argument.split()]
        return self._load([newest_version(model) for model in models], self.changes)

    def _help(self, argument: str) -> str:
        return HELP

    def _quit(self, argument: str) -> str:
        raise EOFError


COMMANDS: dict[str, Callable[[Conversation, str], str]] = {
    "nbest": Conversation._set_nbest,
    "attention": Conversation._switch_attention,
    "model": Conversation._switch_model,
    "help": Conversation._help,
    "quit": Conversation._quit,
}


def converse(models: Sequence[Path], changes: dict[str, Any], engine: str) -> None:
    """Answers the lines that are typed, until Ctrl-D.

    Raises:
        UserError: standard input or output is no terminal, or the model can't be loaded.
    """
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError(
            "--interactive needs a terminal for its input and output; leave it out to translate a file or a pipe"
        )
    conversation = Conversation(models, changes, engine)
    notes.print(f"{_names(models)}: ready; :help lists the commands, Ctrl-D quits")
    with _history(), _ctrl_c_cancels():
        while True:
            try:
                for line in conversation.answer(input(PROMPT)):
                    print(line)
            except KeyboardInterrupt:
                print()
            except EOFError:
                print()
                return
            except UnicodeDecodeError:
                notes.print("this line is not valid UTF-8; set the terminal's encoding to UTF-8")
            except UserError as error:
                notes.print(in_the_users_words(str(error)))


def _names(models: Sequence[Path]) -> str:
    return " + ".join(map(str, models))


@contextmanager
def _ctrl_c_cancels() -> Iterator[None]:
    """Within it, Ctrl-C raises KeyboardInterrupt, and nothing else comes of it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _history() -> Iterator[None]:
    """Line editing, and the lines of earlier conversations. Without a place for them it works all the same."""
    try:
        import readline
    except ImportError:  # a Python that was built without it
        yield
        return
    file = history_file()
    with suppress(OSError):
        readline.read_history_file(file)
    readline.set_history_length(HISTORY_LINES)
    try:
        yield
    finally:
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch(mode=0o600)  # what somebody translates is nobody else's
            readline.write_history_file(file)


def history_file() -> Path:
    """Where lines are kept: in the user's state folder, as the XDG Base Directory Specification has it."""
    state = os.environ.get("XDG_STATE_HOME") or ""
    folder = Path(state) if os.path.isabs(state) else Path("~/.local/state").expanduser()
    return folder / "tf_transformer" / "history"
