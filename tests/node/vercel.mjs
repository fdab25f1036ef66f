/** Vercel's `ai`, with its packages for both providers. */
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { embed as embedOne, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

/** The model of the API that *api* names. */
function modelOf({ base, key, api }) {
  const settings = { baseURL: `${base}/v1`, apiKey: key };
  if (api === "messages") return createAnthropic(settings)("claude-sonnet-5");
  const openai = createOpenAI(settings);
  return api === "chat" ? openai.chat("gpt-4o") : openai("gpt-4.1");
}

const asked = (options) => ({
  model: modelOf(options),
  prompt: options.text ?? "Tell a story.",
  maxOutputTokens: options.cap ?? 100,
  maxRetries: options.retries ?? 0,
});

export async function generate(options) {
  const { text, usage } = await generateText(asked(options));
  return { text, usage };
}

export async function stream(options) {
  const answer = streamText({ ...asked(options), onError() {} });
  let text = "";
  for await (const piece of answer.textStream) text += piece;
  return { text, usage: await answer.usage };
}

/** Leaves as soon as it has some text. */
export async function abort(options) {
  const controller = new AbortController();
  const answer = streamText({ ...asked(options), abortSignal: controller.signal });
  let text = "";
  for await (const piece of answer.textStream) {
    text += piece;
    if (text.length >= 16) controller.abort();
  }
  return { text, aborted: controller.signal.aborted };
}

/** Calls a tool, gives its result back, and goes on until there is text. */
export async function tools(options) {
  const asks = [];
  const { text, steps } = await generateText({
    ...asked({ ...options, text: "What is the weather?" }),
    tools: {
      weather: tool({
        description: "Weather of a place",
        inputSchema: z.object({ city: z.string() }),
        execute: async ({ city }) => {
          asks.push(city);
          return { sky: "clear" };
        },
      }),
    },
    stopWhen: stepCountIs(3),
  });
  return { asks, text, usages: steps.map((step) => step.usage) };
}

export async function embed(options) {
  const openai = createOpenAI({ baseURL: `${options.base}/v1`, apiKey: options.key });
  const { embedding, usage } = await embedOne({
    model: openai.embedding("text-embedding-3-small"),
    value: "The weather in Tokyo",
    maxRetries: 0,
  });
  return { vectors: embedding.length > 0 ? 1 : 0, usage };
}
