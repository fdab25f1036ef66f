"""
How far estimates of tokens are from what models count.

    environment   packages with texts and tokenizers, in a folder of their own
    corpora       texts by language, half of them held out
    oracle        a program of that environment: what each family's tokenizer counts
    measure       estimates beside those counts: bias, median, 95th percentile
    recorded      estimates beside usage that a provider has reported
    prompts       prompts with tools beside another library's counts
    fit           ratios from the other half of the texts
    report        the page's tables

Nothing of it is needed to run the gateway.
"""
