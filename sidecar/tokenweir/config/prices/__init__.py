"""
Where prices come from.

    names        one name for what is written in several ways
    match        whether a rule of genai-prices means this very model
    compile      genai-prices' prices    -> `tokenweir.core.price.ModelPrice`
    catalogue    genai-prices as a whole, compiled as it is asked for
    fields       litellm's names of prices
    entry        a model's entry in litellm's form -> `ModelPrice`
    overlay      a file of such entries
    book         all of them, in order of precedence

Only `catalogue`, `compile` and `match` import genai-prices. That takes about a third
of a second and 30 MB, so the others import them when the first price is asked for
that no overlay has.
"""
