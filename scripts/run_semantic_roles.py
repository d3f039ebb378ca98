"""Train, evaluate and apply a labeller of semantic roles on ELMo: `hf-elmo train-semantic-roles`."""

from hf_elmo.commands.train_semantic_roles import main

if __name__ == "__main__":
    main()
