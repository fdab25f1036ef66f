"""
From a YAML file and the environment to a compiled policy, or to a list of mistakes.

    document          text      -> plain values that know their lines
    schema            values    -> checked entries, one by one
    salvage           what can still be checked if some entries are wrong
    compile           entries   -> `tokenweir.core.policy.Policy`, checked as a whole
    load              all of it, for one file
    watch             again whenever a file changes

Rule: all problems are gathered and told at once, each beginning with the path of
the value. No problem repeats text from a value: it could be a secret that was put
in the wrong place.
"""
