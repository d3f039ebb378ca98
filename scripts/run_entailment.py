"""Train, evaluate and apply a classifier of pairs of texts on ELMo: `hf-elmo train-entailment`."""

from hf_elmo.commands.train_entailment import main

if __name__ == "__main__":
    main()
