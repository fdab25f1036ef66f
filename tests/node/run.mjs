/**
 * Runs what tests ask for, with SDKs as apps use them.
 *
 * Each line of standard input is {kit, task, options}; each line of standard output is
 * what came of it, in that order: {told}, or {error}: what an app would see of one.
 */
import { createInterface } from "node:readline";

/** What an SDK's error says, by the names that SDKs have for it. */
function described(error) {
  const headers = error.headers ?? error.responseHeaders ?? {};
  const header = (name) => headers.get?.(name) ?? headers[name] ?? null;
  return {
    name: error.name === "Error" ? error.constructor.name : error.name,
    message: error.message,
    status: error.status ?? error.statusCode ?? null,
    code: error.code ?? null,
    type: error.type ?? null,
    body: error.error ?? (error.responseBody ? JSON.parse(error.responseBody) : null),
    retryable: error.isRetryable ?? null,
    retryAfterMs: header("retry-after-ms"),
    retryAfter: header("retry-after"),
    refusal: header("x-tokenweir-refusal"),
  };
}

for await (const line of createInterface({ input: process.stdin })) {
  const { kit, task, options } = JSON.parse(line);
  let outcome;
  try {
    const tasks = await import(`./${kit}.mjs`);
    // Several at once, where one of them is to be refused: the first error counts.
    const runs = Array.from({ length: options.atOnce ?? 1 }, () => tasks[task](options));
    await Promise.allSettled(runs);
    outcome = { told: (await Promise.all(runs))[0] };
  } catch (error) {
    outcome = { error: described(error) };
  }
  process.stdout.write(`${JSON.stringify(outcome)}\n`);
}
