"""Vectors as other programs give them, with the LSTM states carried from batch to batch."""

import torch


def run_batches(model, tokenizer, batches, warmup=False):
    """The layers (L + 1, T, 2P) and the mixes (T, 2P) of each sentence, without special tokens.

    Row r of a batch carries on the state of row r before it. With `warmup` the first batch is run once for its state
    alone.
    """
    state, found, most = None, [], max(map(len, batches))
    for number, batch in enumerate([*batches[:warmup], *batches]):
        # A row without words keeps its state, as the rows of a smaller batch do there.
        rows = batch + [[]] * (most - len(batch))
        encoded = tokenizer(rows, is_split_into_words=True, padding=True, return_tensors="pt")
        encoded["attention_mask"][len(batch) :] = 0
        with torch.no_grad():
            output = model.base_model(**encoded, state=state, output_hidden_states=True)
        state, layers = output.state, torch.stack(output.hidden_states).numpy()
        if number >= warmup:
            for row, words in enumerate(batch):
                mixes = [mix[row, 1 : 1 + len(words)].numpy() for mix in output.elmo_representations]
                found.append((layers[:, row, 1 : 1 + len(words)], mixes))
    return found
