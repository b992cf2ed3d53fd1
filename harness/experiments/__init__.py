"""Many runs to answer a question: `explore` searches for a failure, `investigate` for what causes one."""
