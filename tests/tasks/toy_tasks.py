"""Tasks on tiny models: from dicts of flags and settings of the head to a task that is prepared."""

import json
from dataclasses import fields

from hf_elmo.tasks.training import TaskTrainingArguments

# Small enough to be quick, large enough to learn the toy tasks.
TOY_CONFIG = {
    "projection_size": 16,
    "cell_size": 32,
    "filters": [[1, 8], [2, 16], [3, 32]],
    "character_embedding_size": 8,
}


def prepare(task, model, data, training):
    """A task that is prepared.

    Args:
        task: The class.
        model: Flags of the model by name; what is none of them is a setting of the head.
        data: Flags of the data.
        training: Flags of the training.
    """
    flags = {field.name for field in fields(task.model_arguments)}
    head = [f"{name}={json.dumps(value)}" for name, value in model.items() if name not in flags]
    model = {name: value for name, value in model.items() if name in flags}
    training = TaskTrainingArguments(**{"use_cpu": True, "disable_tqdm": True, **training})
    return task(task.model_arguments(**model, head=head), task.data_arguments(**data), training).prepare()
