"""Train, evaluate and apply coreference resolution on ELMo: `hf-elmo train-coreference`."""

from hf_elmo.commands.train_coreference import main

if __name__ == "__main__":
    main()
