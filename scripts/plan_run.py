"""Compute the memory, communication, steps and text of a run of pre-training: `hf-elmo plan`."""

from hf_elmo.commands.plan_run import main

if __name__ == "__main__":
    main()
