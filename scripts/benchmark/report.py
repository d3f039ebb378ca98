"""The benchmark's results in Markdown: what was reached, what everything took, how far it deviates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hf_elmo.checkpoints.provenance import describe_origin, write_json
from hf_elmo.checkpoints.tables import markdown_table

from .cases import ALLENNLP, BFLOAT16, COMPILED, PLAIN, WORDS_TO_VECTORS

_Column = tuple[str, int]


def write_report(output_dir: str, results_file: str, results: dict[str, Any], report_file: str, report: str) -> None:
    """Write results and their report into a directory, and print the report."""
    directory = Path(output_dir)
    directory.mkdir(parents=True, exist_ok=True)
    write_json(directory / results_file, results)
    (directory / report_file).write_text(report, encoding="utf-8")
    print(f"\n{report}\nwritten to {directory / results_file} and {directory / report_file}")


def render_report(results: dict[str, Any]) -> str:
    """All tables, with what it takes to get them again.

    Args:
        results: As in benchmark.json.
    """
    tables = (
        render_targets,
        render_comparisons,
        render_timings,
        render_deviations,
        render_scan_deviations,
        render_origin,
    )
    return "\n\n".join(part for part in (render(results) for render in tables) if part) + "\n"


def render_targets(results: dict[str, Any]) -> str:
    """Each promise with its ratio, measured and wanted; empty where the run timed none of them."""
    promised = [outcome for outcome in results["targets"] if outcome["target"] is not None]
    cells = {((outcome["row"],), _column(outcome)): _outcome(outcome) for outcome in promised}
    return _pivot(["ratio of times (target)"], cells) if cells else ""


def render_comparisons(results: dict[str, Any]) -> str:
    """How many times faster ours is than others, which is promised nowhere; empty where the run timed no others."""
    others = [outcome for outcome in results["targets"] if outcome["target"] is None]
    cells = {
        ((outcome["row"],), _column(outcome)): f"{outcome['measured']:.2f} by {outcome['ours']}" for outcome in others
    }
    return _pivot(["times faster"], cells) if cells else ""


def render_timings(results: dict[str, Any]) -> str:
    """Median milliseconds and words per second of every function."""
    cells = {
        ((case["case"], name), _column(case)): f"{1000 * timing['median']:,.1f} ms, {timing['words_per_second']:,.0f}/s"
        for case in results["timings"]
        for name, timing in case["functions"].items()
    }
    tokenizer = results["tokenizer"]
    return (
        _pivot(["median time, words per second", "by"], cells)
        + f"\n\nThe tokenizer makes rows of {tokenizer['words_per_second']:,.0f} words per second on one core, in one "
        f"padded call with {tokenizer['sentences']:,} sentences whose words it has seen before."
    )


def render_words_per_second(results: Mapping[str, Any]) -> str:
    """The README's table: words per second from rows to vectors, AllenNLP's, ours in float32 and ours in bf16."""
    cases = [case for case in results["timings"] if case["case"] == WORDS_TO_VECTORS]
    cells = {
        ((name,), _column(case)): f"{case['functions'][name]['words_per_second']:,.0f}"
        for name in (ALLENNLP, PLAIN, COMPILED, BFLOAT16)
        for case in cases
        if name in case["functions"]
    }
    return _pivot(["words per second"], cells, lambda column: f"{column[0]}, {column[1]} at a time")


def render_deviations(results: dict[str, Any]) -> str:
    """How far the results at the benchmark's sizes lie from the readable scan's."""
    cells = {
        ((deviation["what"], deviation["name"]), _column(deviation)): (
            f"{deviation['maximum']:.1e}, {deviation['mean']:.1e}, {deviation['relative_rms']:.1e}"
        )
        for deviation in results["deviations"]
        if deviation["size"] is not None
    }
    return _pivot(["deviation: largest, mean, relative RMS", "by"], cells)


def render_scan_deviations(results: dict[str, Any]) -> str:
    """How far the scans in float64, clipping active, lie from the readable one; empty where only that one ran."""
    scans = [deviation for deviation in results["deviations"] if deviation["size"] is None]
    cells = {((scan["name"],), scan["what"]): f"{scan['maximum']:.1e}" for scan in scans}
    return _pivot(["largest deviation, float64, clipped"], cells, str) if cells else ""


def render_origin(results: dict[str, Any]) -> str:
    """The command, the machine, the versions, the text and how the figures were taken."""
    missing = "".join(f" The backend {name!r} did not run: {why}." for name, why in results["not_run"].items())
    rounds = ", ".join(str(count) for count in sorted({case["rounds"] for case in results["timings"]}))
    batches = "; ".join(
        f"{batch['sentences']} ({batch['words']} words, {batch['distinct_words']} distinct, {batch['longest_sentence']}"
        " in the longest sentence)"
        for batch in results["batches"]
    )
    return (
        f"```bash\n{results['command']}\n```\n\n"
        f"{describe_origin(results)}. Random weights; sentences of 10 to 40 words "
        f"from {results['text']} in batches of {batches}; the training step reads full lanes of random vectors. "
        f"Interleaved rounds ({rounds} by case), medians; a ratio is the median of the rounds' ratios, to the fastest "
        "peer of the row. Words per second count real words and sentence markers. The floor is what the biLM's matrix "
        "products over real words take at the rate of one large float32 product in the same rounds; the floor with "
        "weights read lets no step take less than one reading of its recurrent weights does. Deviations are "
        "from the readable scan, in the training step of all gradients; nn.LSTM cannot clip and is "
        f"compared with a scan that does not.{_describe_halves(results)}{missing}"
    )


def _describe_halves(results: dict[str, Any]) -> str:
    """In which dtype bf16 was multiplied, in a sentence; empty for files from before that was written down."""
    products = results.get("bf16_products")
    if products is None:
        return ""
    if products["dtype"] == "bfloat16":
        return " bf16 was multiplied by the processor's own instructions for it."
    why = f", because {products['reason']}" if products["reason"] else ""
    return f" bf16 was multiplied in float32, by weights that were widened once{why}."


def render_training_report(results: dict[str, Any]) -> str:
    """The speed of the training loop and of the row-making collator, with what it takes to get it again.

    Args:
        results: As in training.json.
    """
    speeds = {
        ((case["case"], name), _column(case)): f"{1000 * timing['median']:,.0f} ms, {timing['words_per_second']:,.0f}/s"
        for case in results["timings"]
        for name, timing in case["functions"].items()
    }
    shares = {
        ((case["case"], name), _column(case)): f"{share:.3f}"
        for case in results["timings"]
        for name, share in case["share_of"].items()
    }
    tables = [
        render_targets(results),
        _pivot(["median time of a round, words per second", "by"], speeds),
        _pivot(["share of the speed of", "that the loop reaches"], shares),
        _render_collator(results["collator"]),
        _render_training_origin(results),
    ]
    return "\n\n".join(part for part in tables if part) + "\n"


def render_memory_report(results: dict[str, Any]) -> str:
    """How the resident memory went over a streamed corpus.

    Args:
        results: As in memory.json.
    """
    head = ["phase", "words", "words/s", "highest, MiB", "growth of the second half, MiB", "flat"]
    rows = []
    for phase in ("counting", "training"):
        found = results[phase]
        figures = [f"{found['words']:,}", f"{found['words'] / found['seconds']:,.0f}"]
        figures += [f"{found['highest_mebibytes']:,.0f}", f"{found['growth_mebibytes']:+.1f}"]
        verdict = "yes" if found["is_flat"] else "no"
        rows.append([phase, *figures, f"{verdict} (< {found['most_growth_mebibytes']:g} MiB)"])
    settings, samples = results["settings"], len(results["training"]["samples"])
    text = (
        f"A corpus of {settings['num_words']:,} words by a Zipf law, {results['distinct_words']:,} of them distinct, "
        "is generated as it is read and never stored. Its words are counted, at most "
        f"{settings['max_words_in_memory']:,} of them in memory; then `LaneTrainer` trains a very small model on "
        f"{results['training']['steps']:,} windows of {settings['num_lanes']} lanes of {settings['unroll_steps']} "
        f"words. The resident memory is read {samples} times in each phase; growth is the median of the last tenth of "
        "the samples less that of the tenth after the middle. It goes up and down because the tables of words that "
        "were met are forgotten when they are full. All samples are in `memory.json`."
    )
    return "\n\n".join([markdown_table(head, rows, align="lrrrrl"), text, _render_machine(results)]) + "\n"


def render_training_profile(results: dict[str, Any]) -> str:
    """Where the time of training steps goes, and how fast plain ones are.

    Args:
        results: As in training_profile.json.
    """
    parts = [_render_profiled_case(case) for case in results["cases"]]
    settings = results["settings"]
    text = (
        f"Text: {results['text']}. Softmax over {results['vocabulary_size']:,} words, "
        f"{settings['num_negative_samples']:,} negatives drawn; windows of {settings['num_lanes']} lanes of "
        f"{settings['unroll_steps']} words, {settings['steps']} a round, in "
        f"{'bf16 by autocast' if settings['bf16'] else 'float32'}. All functions take turns in one process; shares are "
        "medians of the rounds' own. A part is run by itself on what it gets in a step, forward and backward; its "
        "products are those of its shapes, each by one call that writes into memory that is there. What a step does "
        "beside its parts, and what the parts save where they follow each other, is not in the table: the shares need "
        "not sum to 1. A plain step is made of torch's own modules (`nn.Conv1d`, `nn.LSTM(proj_size)`, which cannot "
        "clip) with the same windows, draws, clipping of gradients and AdamW; words are words and closing markers."
    )
    return "\n\n".join([*parts, text, _render_machine(results)]) + "\n"


def render_embedding_report(results: dict[str, Any]) -> str:
    """How fast a corpus becomes files of vectors.

    Args:
        results: As in embedding.json.
    """
    parts = []
    for case in results["cases"]:
        rows = [
            [name, f"{timing['words']:,}", f"{timing['median']:,.2f} s", f"{timing['words_per_second']:,.0f}"]
            for name, timing in case["functions"].items()
        ]
        verdicts = [
            f"Embedding a corpus reaches {_verdict(case['share_of_the_model'])} of the model's own speed, the median "
            f"of {case['turns']:,} shards that each of them did in turn."
        ]
        if "times_allennlp" in case:
            verdicts.append(
                f"It is {_verdict(case['times_allennlp'])} times as fast as AllenNLP's embed_file, whose first batch "
                f"deviates from ours by {case['deviation']:.1e}."
            )
        table = markdown_table(["", "words", "a round", "words per second"], rows, align="lrrr")
        parts += [f"## {case['size']}", " ".join(verdicts), table]
    text = (
        f"Text: {results['text']}. All functions take turns in one process; ratios are medians, on words without "
        "markers. The model alone reads rows made before, in the batches that `embed` makes, each distinct word "
        "encoded once; `embed` goes from a file of text to shards, the counting of the words included. Each of them "
        "has an empty table of words at the start of the text, of which one does a shard and then the other the same "
        "words. AllenNLP embeds batches of 64 sentences in the order of the text, all layers, into an hdf5."
    )
    return "\n\n".join([*parts, text, _render_machine(results)]) + "\n"


def _render_profiled_case(case: Mapping[str, Any]) -> str:
    speeds = [
        [name, f"{1000 * timing['median']:,.0f} ms", f"{timing['words_per_second']:,.0f}"]
        for name, timing in case["functions"].items()
        if name == "step" or name in case["times_plain"]
    ]
    shares = [
        [part, f"{found['share']:.3f}", f"{found['products_share']:.3f}"] for part, found in case["parts"].items()
    ]
    verdicts = [
        f"Of a step's time its matrix products take {_verdict(case['products_share'])} alone.",
        *(f"Ours is {_verdict(found)} times as fast as the {name}." for name, found in case["times_plain"].items()),
    ]
    sizes = (
        f"## {case['size']}: {case['filters']:,} filters, {case['num_highway_layers']} highway, projection "
        f"{case['projection_size']}, cell {case['cell_size']}; {case['distinct_words']:,.0f} distinct words a window"
    )
    return "\n\n".join(
        [
            sizes,
            " ".join(verdicts),
            markdown_table(["", "a round", "words per second"], speeds, align="lrr"),
            markdown_table(["part", "share of the step", "its products alone"], shares, align="lrr"),
        ]
    )


def _verdict(found: Mapping[str, Any]) -> str:
    return f"{found['measured']:.2f} (≥ {found['target']:g}: {'reached' if found['reached'] else 'missed'})"


def _render_collator(collator: Mapping[str, Any]) -> str:
    rows = [[name, f"{timing['words_per_second']:,.0f}"] for name, timing in collator["functions"].items()]
    verdict = "reached" if collator["reached"] else "missed"
    return markdown_table(["row-making collator, one core", "words per second"], rows) + (
        f"\n\nThe target is {collator['target']:,.0f} words per second from words to windows: {verdict}. Words are "
        f"counted without markers; {collator['words']:,} of them, {collator['rounds']} rounds, medians. Each round "
        "starts with empty tables of words."
    )


def _render_training_origin(results: dict[str, Any]) -> str:
    settings = results["settings"]
    rounds = ", ".join(str(count) for count in sorted({case["rounds"] for case in results["timings"]}))
    return (
        f"Text: {results['text']}. Softmax over {results['vocabulary_size']:,} words; windows of "
        f"{settings['num_lanes']} lanes of {settings['unroll_steps']} words, {settings['steps']} windows a round, "
        f"{rounds} rounds by case, interleaved in one process. The loop is a whole run of `LaneTrainer.train`: it "
        "reads the stream, makes rows, checks losses, clips, steps, logs, and scores a held-out word before and after. "
        "Its peers run the same windows, made before: forward + backward alone, and with clipping and AdamW. Words are "
        f"words and closing markers, each seen by both directions.\n\n{_render_machine(results)}"
    )


def _render_machine(results: dict[str, Any]) -> str:
    return f"```bash\n{results['command']}\n```\n\n{describe_origin(results)}."


def _column(entry: Mapping[str, Any]) -> _Column:
    return entry["size"], entry["batch_size"]


def _outcome(outcome: Mapping[str, Any]) -> str:
    if outcome["measured"] is None:
        return f"not measured (≥ {outcome['target']:g})"
    verdict = "reached" if outcome["reached"] else "missed"
    return f"{outcome['measured']:.2f} by {outcome['ours']} (≥ {outcome['target']:g}: {verdict})"


def _pivot(
    head: Sequence[str],
    cells: Mapping[tuple[tuple[str, ...], Any], str],
    title: Callable[[Any], str] = lambda column: f"{column[0]}, {column[1]}",
) -> str:
    """A table with a row for each first key and a column for each second one, both in the order of appearance."""
    columns = list(dict.fromkeys(column for _, column in cells))
    rows = [
        [*row, *(cells.get((row, column), "-") for column in columns)] for row in dict.fromkeys(row for row, _ in cells)
    ]
    return markdown_table([*head, *map(title, columns)], rows, names=len(head))
