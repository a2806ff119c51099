"""CTranslate2: pieces in, pieces out. Its model is the one that `tf-transformer export --format ctranslate2` writes."""

from __future__ import annotations

from worker import Options, Translate, serve


def load(options: Options) -> Translate:
    import ctranslate2

    translator = ctranslate2.Translator(
        options["model"],
        device="cuda" if options["gpu"] else "cpu",
        inter_threads=options["streams"],
        intra_threads=options["threads"] // options["streams"],
    )
    end = options["special_pieces"]["end"]

    def translate(batch: list[list[str]]) -> list[list[str]]:
        results = translator.translate_batch(
            [[*pieces, end] for pieces in batch],
            beam_size=options["beam_size"],
            # Here a score is divided by length ** length_penalty, which is not the paper's.
            length_penalty=options["alpha"],
            max_batch_size=0,
            max_input_length=0,
            max_decoding_length=max(map(len, batch)) + options["extra_length"],
        )
        return [result.hypotheses[0] for result in results]

    return translate


if __name__ == "__main__":
    serve(load, ["ctranslate2"])
