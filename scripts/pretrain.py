"""Pre-train an ELMo on single sentences with a training loop of your own, on one process or many.

accelerate launch scripts/pretrain.py --train_file 'corpus/*.txt' --validation_file heldout.txt --output_dir output/elmo

An example to copy and to change, as transformers has them. `hf-elmo pretrain` is for long runs: it streams its text,
carries the LSTM state from sentence to sentence, encodes each distinct word once, draws negative samples and resumes.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import get_scheduler

from hf_elmo import ElmoCharTokenizer, ElmoConfig, ElmoForPreTraining

SPECIAL_WORDS = ("<S>", "</S>", "<UNK>")
UNKNOWN = SPECIAL_WORDS.index("<UNK>")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train_file", nargs="+", required=True, help="text, a sentence per line")
    parser.add_argument("--validation_file", nargs="+", required=True, help="text to measure the perplexity on")
    parser.add_argument("--output_dir", required=True, help="where the checkpoint is written")
    parser.add_argument("--preset", default="small", help="size of the model: small, medium or original")
    parser.add_argument("--config_overrides", default="{}", help='fields of ElmoConfig as JSON: {"cell_size": 512}')
    parser.add_argument("--pre_tokenizer", default="whitespace", help="how text is cut into words")
    parser.add_argument("--max_words", type=int, default=100, help="longest sentence; longer ones are truncated")
    parser.add_argument("--max_vocab_size", type=int, default=20_000, help="most words of the softmax")
    parser.add_argument("--batch_size", type=int, default=32, help="sentences per step and process")
    parser.add_argument("--learning_rate", type=float, default=2e-3, help="highest learning rate of AdamW")
    parser.add_argument("--num_train_epochs", type=int, default=3, help="passes over the training text")
    parser.add_argument("--seed", type=int, default=42, help="of weights, dropout and shuffling")
    return parser.parse_args()


def main() -> None:
    args = parse_arguments()
    accelerator = Accelerator(cpu=not torch.accelerator.is_available())
    set_seed(args.seed)
    text = load_dataset("text", data_files={"train": args.train_file, "validation": args.validation_file})
    text = text.filter(lambda row: row["text"].strip() != "")
    tokenizer = ElmoCharTokenizer(pre_tokenizer=args.pre_tokenizer)

    # The softmax is over the most frequent words of the training text.
    counts = Counter(word for row in text["train"] for word in tokenizer.tokenize(row["text"]))
    frequent = [word for word, _ in counts.most_common(args.max_vocab_size) if word not in SPECIAL_WORDS]
    words = [*SPECIAL_WORDS, *frequent][: args.max_vocab_size]
    ids = {word: number for number, word in enumerate(words)}
    config = getattr(ElmoConfig, args.preset)(word_vocab_size=len(words), **json.loads(args.config_overrides))
    model = ElmoForPreTraining(config)
    model.words = words

    def collate(rows):
        sentences = [row["text"] for row in rows]
        batch = tokenizer(sentences, padding=True, truncation=True, max_length=args.max_words, return_tensors="pt")
        labels = [[ids.get(word, UNKNOWN) for word in batch.tokens(number)] for number in range(len(rows))]
        # Each word is the target of both neighbors; what the mask hides is nobody's.
        return {**batch, "labels": torch.tensor(labels)}

    loaders = [
        DataLoader(text[split], args.batch_size, shuffle=split == "train", collate_fn=collate)
        for split in ("train", "validation")
    ]
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], args.learning_rate)
    model, optimizer, train_loader, validation_loader = accelerator.prepare(model, optimizer, *loaders)
    num_steps = args.num_train_epochs * len(train_loader)
    scheduler = get_scheduler("cosine", optimizer, num_warmup_steps=num_steps // 20, num_training_steps=num_steps)

    for epoch in range(1, args.num_train_epochs + 1):
        model.train()
        for batch in train_loader:
            loss = model(**batch).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        model.eval()
        sums = torch.zeros(2, device=accelerator.device)
        for batch in validation_loader:
            with torch.no_grad():
                loss = model(**batch).loss
            # One target less than there are words in a sentence, its special tokens included.
            count = (batch["attention_mask"].sum(dim=1) - 1).sum()
            sums += torch.stack([loss * count, count])
        nats, count = accelerator.reduce(sums).tolist()
        accelerator.print(f"epoch {epoch} of {args.num_train_epochs}: perplexity {math.exp(nats / count):,.1f}")

    model = accelerator.unwrap_model(model)
    model.save_pretrained(args.output_dir, is_main_process=accelerator.is_main_process)
    if accelerator.is_main_process:
        tokenizer.save_pretrained(args.output_dir)
    # DDP before its process group, or it may wait for that group's threads for ever.
    accelerator.free_memory()
    accelerator.end_training()


if __name__ == "__main__":
    main()
