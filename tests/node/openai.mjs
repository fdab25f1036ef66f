/** OpenAI's SDK. */
import OpenAI from "openai";

const WEATHER = {
  type: "function",
  function: {
    name: "weather",
    description: "Weather of a place",
    parameters: {
      type: "object",
      properties: { city: { type: "string" } },
      required: ["city"],
    },
  },
};

const client = ({ base, key, retries = 0 }) =>
  new OpenAI({ baseURL: `${base}/v1`, apiKey: key, maxRetries: retries });

const asked = ({ model = "gpt-4o", text = "Tell a story.", cap = 100 }) => ({
  model,
  messages: [
    { role: "developer", content: "Be brief." },
    { role: "user", content: text },
  ],
  max_completion_tokens: cap,
});

export async function chat(options) {
  const { data, response } = await client(options)
    .chat.completions.create(asked(options))
    .withResponse();
  return {
    text: data.choices[0].message.content,
    usage: data.usage,
    remaining: response.headers.get("x-ratelimit-remaining-requests"),
  };
}

export async function stream(options) {
  const body = { ...asked(options), stream: true };
  if (options.usage) body.stream_options = { include_usage: true };
  const events = [];
  for await (const event of await client(options).chat.completions.create(body)) {
    events.push(event);
  }
  return {
    text: events.map((event) => event.choices[0]?.delta.content ?? "").join(""),
    withoutChoices: events.filter((event) => !event.choices.length).length,
    usage: events.at(-1).usage ?? null,
  };
}

/** Leaves as soon as it has some text. */
export async function abort(options) {
  const controller = new AbortController();
  const answer = await client(options).chat.completions.create(
    { ...asked(options), stream: true },
    { signal: controller.signal },
  );
  let text = "";
  for await (const event of answer) {
    text += event.choices[0]?.delta.content ?? "";
    if (text.length >= 16) controller.abort();
  }
  return { text, aborted: controller.signal.aborted };
}

export async function tools(options) {
  const body = { ...asked({ ...options, text: "What is the weather?" }), tools: [WEATHER] };
  const sdk = client(options);
  const first = await sdk.chat.completions.create(body);
  const [call] = first.choices[0].message.tool_calls;
  body.messages = [
    ...body.messages,
    first.choices[0].message,
    { role: "tool", tool_call_id: call.id, content: '{"sky": "clear"}' },
  ];
  const second = await sdk.chat.completions.create(body);
  return {
    city: JSON.parse(call.function.arguments).city,
    text: second.choices[0].message.content,
    usages: [first.usage, second.usage],
  };
}

export async function respond(options) {
  const answer = await client(options).responses.create({
    model: "gpt-4.1",
    input: "Tell a story.",
    max_output_tokens: 100,
  });
  return { text: answer.output_text, usage: answer.usage };
}

export async function respondInStream(options) {
  const answer = client(options).responses.stream({
    model: "gpt-4.1",
    input: "Tell a story.",
    max_output_tokens: 100,
  });
  const final = await answer.finalResponse();
  return { text: final.output_text, usage: final.usage };
}

export async function embed(options) {
  const answer = await client(options).embeddings.create({
    model: "text-embedding-3-small",
    input: ["The weather in Tokyo", "and in Kyoto"],
  });
  return { vectors: answer.data.length, usage: answer.usage };
}

export async function models(options) {
  const found = [];
  for await (const model of client(options).models.list()) found.push(model.id);
  return found;
}
