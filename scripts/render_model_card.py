"""Render the cards and plots of model_cards/ anew from their files: `hf-elmo card`."""

from hf_elmo.commands.render_card import main

if __name__ == "__main__":
    main()
