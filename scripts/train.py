"""Train a tagger on an ELMo checkpoint with transformers' Trainer, on one process or many.

accelerate launch scripts/train.py --model_name_or_path output/elmo --train_file train.json \\
    --validation_file dev.json --output_dir output/tagger --learning_rate 3e-3 --num_train_epochs 10

An example to copy and to change, as transformers has them. A row of the data is {"tokens": ["Alice", "flew"], "tags":
["B-PER", "O"]}, in JSON lines. `hf-elmo` trains the models of all six tasks of the paper: from many formats,
with word vectors, biLSTMs and CRFs, over several seeds, up to a model card.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from datasets import load_dataset
from seqeval.metrics import accuracy_score, f1_score
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
)

import hf_elmo  # noqa: F401 - the Auto classes know ELMo from here on

IGNORED = -100


@dataclass
class Arguments:
    model_name_or_path: str = field(metadata={"help": "checkpoint, on disk or on the Hub"})
    train_file: str = field(metadata={"help": "JSON lines"})
    validation_file: str = field(metadata={"help": "in the same format"})
    freeze_bilm: bool = field(default=True, metadata={"help": "train only the mix of layers and the classifier"})


def main() -> None:
    arguments, training_arguments = HfArgumentParser((Arguments, TrainingArguments)).parse_args_into_dataclasses()
    files = {"train": arguments.train_file, "validation": arguments.validation_file}
    data = load_dataset("json", data_files=files)
    labels = sorted({tag for split in data.values() for tags in split["tags"] for tag in tags})
    ids = {label: number for number, label in enumerate(labels)}

    tokenizer = AutoTokenizer.from_pretrained(arguments.model_name_or_path)
    model = AutoModelForTokenClassification.from_pretrained(
        arguments.model_name_or_path,
        id2label=dict(enumerate(labels)),
        label2id=ids,
        freeze_bilm=arguments.freeze_bilm,
    )

    def encode(rows):
        batch = tokenizer(rows["tokens"], is_split_into_words=True)
        # A word is one token, whatever its length; only the special tokens have no tag.
        batch["labels"] = [
            [IGNORED if word is None else ids[tags[word]] for word in batch.word_ids(number)]
            for number, tags in enumerate(rows["tags"])
        ]
        return batch

    def score(predictions):
        best = predictions.predictions.argmax(-1)
        kept = [row != IGNORED for row in predictions.label_ids]
        gold, found = (
            [[labels[label] for label in row[mask]] for row, mask in zip(rows, kept, strict=True)]
            for rows in (predictions.label_ids, best)
        )
        return {"f1": f1_score(gold, found), "accuracy": accuracy_score(gold, found)}

    encoded = data.map(encode, batched=True, remove_columns=data["train"].column_names)
    trainer = Trainer(
        model,
        training_arguments,
        train_dataset=encoded["train"],
        eval_dataset=encoded["validation"],
        data_collator=DataCollatorForTokenClassification(tokenizer),
        processing_class=tokenizer,
        compute_metrics=score,
    )
    trainer.train(resume_from_checkpoint=training_arguments.resume_from_checkpoint)
    trainer.log_metrics("validation", trainer.evaluate())
    trainer.save_model()
    if training_arguments.push_to_hub:
        trainer.push_to_hub()


if __name__ == "__main__":
    main()
