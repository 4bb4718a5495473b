// What a new session may choose from. Only names: the gateway holds no key of any model.
import { DEFAULT_PROVIDER, type PistisConfig, SCRIPT_MODEL } from "#schemas/config/pistis-config.ts";
import { Refusal } from "#shared/errors/errors.ts";

export type Choices = Readonly<{
  models: readonly string[];
  defaultModel: string;
  providers: readonly string[];
  defaultProvider: string;
}>;

export function choicesOf({ models, defaultModel, sandboxes }: PistisConfig): Choices {
  const { provider = DEFAULT_PROVIDER } = sandboxes;
  return {
    models: [...new Set([SCRIPT_MODEL, ...Object.keys(models)])],
    defaultModel,
    providers: [provider],
    defaultProvider: provider,
  };
}

/** Throws a Refusal `model_unknown` or `provider_unknown` that names what there is. */
export function choose(
  choices: Choices,
  wanted: { model?: string | undefined; provider?: string | undefined },
): { model: string; provider: string } {
  const { model = choices.defaultModel, provider = choices.defaultProvider } = wanted;
  if (!choices.models.includes(model)) throw unknown("model", model, choices.models);
  if (!choices.providers.includes(provider)) throw unknown("provider", provider, choices.providers);
  return { model, provider };
}

function unknown(kind: "model" | "provider", name: string, known: readonly string[]): Refusal {
  const next = `Choose one of: ${known.join(", ")}. They are set in pistis.json.`;
  return new Refusal(`${kind}_unknown`, `There is no ${kind} ${JSON.stringify(name)}`, { next });
}
