/** Anthropic's SDK. */
import Anthropic from "@anthropic-ai/sdk";

const WEATHER = {
  name: "weather",
  description: "Weather of a place",
  input_schema: {
    type: "object",
    properties: { city: { type: "string" } },
    required: ["city"],
  },
};

const client = ({ base, key, retries = 0 }) =>
  new Anthropic({ baseURL: base, apiKey: key, maxRetries: retries });

const asked = ({ model = "claude-sonnet-5", text = "Tell a story.", cap = 100 }) => ({
  model,
  system: "Be brief.",
  messages: [{ role: "user", content: text }],
  max_tokens: cap,
});

const textOf = (message) =>
  message.content.map((block) => (block.type === "text" ? block.text : "")).join("");

export async function message(options) {
  const answer = await client(options).messages.create(asked(options));
  return { text: textOf(answer), usage: answer.usage };
}

export async function stream(options) {
  const answer = client(options).messages.stream(asked(options));
  const final = await answer.finalMessage();
  return { text: textOf(final), usage: final.usage };
}

/** Leaves as soon as it has some text. */
export async function abort(options) {
  const answer = client(options).messages.stream(asked(options));
  let text = "";
  for await (const event of answer) {
    text += event.delta?.text ?? "";
    if (text.length >= 16) break;
  }
  answer.abort();
  return { text };
}

export async function tools(options) {
  const body = { ...asked({ ...options, text: "What is the weather?" }), tools: [WEATHER] };
  const sdk = client(options);
  const first = await sdk.messages.create(body);
  const call = first.content.find((block) => block.type === "tool_use");
  const result = { type: "tool_result", tool_use_id: call.id, content: "clear" };
  body.messages = [
    ...body.messages,
    { role: "assistant", content: first.content },
    { role: "user", content: [result] },
  ];
  const second = await sdk.messages.create(body);
  return {
    city: call.input.city,
    text: textOf(second),
    usages: [first.usage, second.usage],
  };
}

export async function count(options) {
  const { model, system, messages } = asked(options);
  return client(options).messages.countTokens({ model, system, messages });
}
