"""The pre-training model: the biLM with its word softmax.

Letters in shapes: B sentences, T words, C characters per word, P projection, V words of the softmax.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import Tensor, nn
from transformers.utils import ModelOutput, cached_file
from transformers.utils.generic import can_return_tuple

from .base_elmo import ElmoModel, ElmoPreTrainedModel, mean_cross_entropy
from .configuration_elmo import ElmoConfig
from .inputs_elmo import IGNORED_LABEL, check_labels, takes_usual_arguments
from .layers_elmo import ElmoState
from .word_list_elmo import WORD_LIST_FILE, read_words, write_words

# What `from_pretrained` is told about where files come from, apart from the checkpoint's name.
_WHERE = ("cache_dir", "force_download", "local_files_only", "proxies", "revision", "subfolder", "token")

WordSoftmax: TypeAlias = nn.Linear | nn.AdaptiveLogSoftmaxWithLoss


@dataclass
class ElmoForPreTrainingOutput(ModelOutput):
    """What `ElmoForPreTraining` returns.

    Args:
        loss: With labels, the mean of both directions' losses, in nats per word.
        forward_loss: Mean of -log p(next word), in nats.
        backward_loss: Mean of -log p(previous word), in nats.
        forward_logits: Scores of the word after each position, (B, T, V); log probabilities by an adaptive softmax.
        backward_logits: Scores of the word before each position, (B, T, V).
        hidden_states: With `output_hidden_states`, as in `ElmoModelOutput`.
        state: The LSTM states after this batch.
    """

    loss: Tensor | None = None
    forward_loss: Tensor | None = None
    backward_loss: Tensor | None = None
    forward_logits: Tensor | None = None
    backward_logits: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    state: ElmoState | None = None


class ElmoForPreTraining(ElmoPreTrainedModel):
    """The biLM with its word softmax, shared by both directions (Peters et al. 2018, sec. 3.1) or one for each.

    The whole biLM is trained whatever `config.freeze_bilm` says; the scalar mixes rest at their starting values, so
    that `AutoModel.from_pretrained` finds a complete model in the checkpoint.

    The words of the softmax travel with the model: `words` are read from word_vocabulary.txt beside the weights where
    there is one, and `save_pretrained` and `push_to_hub` write them there.
    """

    _auto_class = "AutoModelForPreTraining"  # type: ignore[assignment]

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        if config.word_vocab_size is None:
            raise ValueError(
                "word_vocab_size is None: this checkpoint has no word softmax. Set it to the size of the word "
                "vocabulary to pre-train, or load the checkpoint with AutoModel."
            )
        self.elmo = ElmoModel(config)
        self.elmo.is_pretraining = True
        self.num_words = config.word_vocab_size
        self.word_softmax = _make_word_softmax(config, self.num_words)
        self.word_softmax_backward: WordSoftmax | None = None
        if not config.share_word_softmax:
            self.word_softmax_backward = _make_word_softmax(config, self.num_words)
        self._words: tuple[str, ...] | None = None
        self.post_init()
        self._apply_freezing()

    @property
    def words(self) -> tuple[str, ...] | None:
        """The words of the softmax, V of them in the order of their ids; None where the checkpoint names none."""
        return self._words

    @words.setter
    def words(self, words: Sequence[str] | None) -> None:
        if words is not None and len(words) != self.num_words:
            raise ValueError(
                f"words has {len(words)} entries, but this model has a softmax over {self.num_words} "
                "words; give the list that it was trained with."
            )
        self._words = None if words is None else tuple(words)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | os.PathLike | None, *args: Any, **kwargs: Any) -> Any:
        """As transformers' own, with the words of the softmax where the checkpoint holds them.

        Raises: ValueError where it holds more or fewer words than its softmax has rows, unless
            `ignore_mismatched_sizes` is set, which leaves them out.
        """
        loaded = super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        if pretrained_model_name_or_path is not None:
            model._load_words(pretrained_model_name_or_path, kwargs)
        return loaded

    def _load_words(self, name: str | os.PathLike, arguments: dict[str, Any]) -> None:
        path = cached_file(
            name,
            WORD_LIST_FILE,
            **{argument: arguments[argument] for argument in _WHERE if argument in arguments},
            # The weights may come from the cache while the Hub cannot be reached: no words then, and no error.
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
        if path is None:
            return
        try:
            words = read_words(path)
        except ValueError as error:
            raise ValueError(f"{name} holds {WORD_LIST_FILE}, but it is {error}") from error
        if len(words) == self.num_words:
            self.words = words
        elif not arguments.get("ignore_mismatched_sizes", False):
            raise ValueError(
                f"{name} has a softmax over {self.num_words} words, but its {WORD_LIST_FILE} has "
                f"{len(words)}; put the file there that was saved with the model."
            )

    def save_pretrained(
        self, save_directory: str | os.PathLike, is_main_process: bool = True, *args: Any, **kwargs: Any
    ) -> None:
        """As transformers' own, with the words of the softmax where they are known."""
        if self.words is not None and is_main_process:
            os.makedirs(save_directory, exist_ok=True)
            write_words(save_directory, self.words)
        super().save_pretrained(save_directory, is_main_process, *args, **kwargs)

    def _get_files_timestamps(self, working_dir: str | os.PathLike) -> dict[str, float]:
        # `save_pretrained(push_to_hub=True)` uploads what is newer than these, and the words have just been written.
        timestamps = super()._get_files_timestamps(working_dir)
        timestamps.pop(WORD_LIST_FILE, None)
        return timestamps

    def _apply_freezing(self) -> None:
        super()._apply_freezing()
        self.elmo.mixes.requires_grad_(False)

    @property
    def word_softmaxes(self) -> tuple[WordSoftmax, WordSoftmax]:
        """The softmax of the forward and that of the backward direction; the same one twice where it is shared."""
        backward = self.word_softmax if self.word_softmax_backward is None else self.word_softmax_backward
        return self.word_softmax, backward

    def get_output_embeddings(self) -> nn.Linear | None:
        return self.word_softmax if isinstance(self.word_softmax, nn.Linear) else None

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        """Replace the forward direction's softmax, where it is a full one.

        Raises: ValueError where it is not, or where the new one is for other words or vectors.
        """
        if self.get_output_embeddings() is None:
            raise ValueError(
                f"softmax_type is {self.config.softmax_type!r}, which has no single layer that could be replaced; "
                "assign to word_softmax instead."
            )
        found, wanted = tuple(new_embeddings.weight.shape), (self.num_words, self.config.projection_size)
        if found != wanted:
            raise ValueError(
                f"new_embeddings has weights of the shape {found}; wanted {wanted}. For other words pre-train on with "
                "--model_name_or_path and --vocab_file."
            )
        self.word_softmax = new_embeddings

    @can_return_tuple
    @takes_usual_arguments
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        state: ElmoState | None = None,
        output_hidden_states: bool | None = None,
    ) -> ElmoForPreTrainingOutput:
        """Predict each word's neighbours on whole sentences.

        Position t scores the word at t + 1 in the forward direction and the word at t - 1 in the backward one.
        Training on a corpus goes through lanes instead (`hf_elmo.pretraining`), which carry the state between windows.

        Args:
            input_ids: Character ids, (B, T, C).
            attention_mask: 1 for real words, (B, T).
            labels: The word id at each position, (B, T), as words of the pre-training vocabulary; the shift is made
                here. -100 and masked positions are never predicted.
            state: Carried LSTM states.
            output_hidden_states: Whether to return the layers.
        """
        mask, layers, state = self.elmo.run_layers(input_ids, attention_mask, state)
        forward_logits, backward_logits = map(_score_words, self.word_softmaxes, layers[-1].chunk(2, dim=-1))
        loss = forward_loss = backward_loss = None
        if labels is not None:
            check_labels(labels, input_ids, self.num_words)
            # A target counts only where the word that predicts it is real too.
            labels = labels.masked_fill(~mask, IGNORED_LABEL)
            forward_loss = mean_cross_entropy(
                forward_logits[:, :-1], labels[:, 1:].masked_fill(~mask[:, :-1], IGNORED_LABEL)
            )
            backward_loss = mean_cross_entropy(
                backward_logits[:, 1:], labels[:, :-1].masked_fill(~mask[:, 1:], IGNORED_LABEL)
            )
            loss = (forward_loss + backward_loss) / 2
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        return ElmoForPreTrainingOutput(
            loss=loss,
            forward_loss=forward_loss,
            backward_loss=backward_loss,
            forward_logits=forward_logits,
            backward_logits=backward_logits,
            hidden_states=tuple(layers) if output_hidden_states else None,
            state=state,
        )


def _make_word_softmax(config: ElmoConfig, num_words: int) -> WordSoftmax:
    if config.softmax_type == "full":
        return nn.Linear(config.projection_size, num_words)
    return nn.AdaptiveLogSoftmaxWithLoss(
        config.projection_size,
        num_words,
        config.adaptive_softmax_cutoffs or (),
        div_value=config.adaptive_softmax_div_value,
    )


def _score_words(softmax: WordSoftmax, vectors: Tensor) -> Tensor:
    """Logits, or log probabilities where the softmax is adaptive; (B, T, P) to (B, T, V)."""
    if isinstance(softmax, nn.Linear):
        return softmax(vectors)
    return softmax.log_prob(vectors.flatten(0, 1)).unflatten(0, vectors.shape[:2])
