"""Studies: experiments over seeds, with their claims and results, and the code that runs them."""
