"""Pre-train an ELMo on text files or a dataset: `hf-elmo pretrain`."""

from hf_elmo.commands.pretrain import main

if __name__ == "__main__":
    main()
