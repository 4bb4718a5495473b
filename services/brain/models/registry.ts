// The models of pistis.json by the names that people chose, plus "script", which is always there. A provider's
// library is loaded when a session first uses it.
import { type ModelConfig, type PistisConfig, SCRIPT_MODEL } from "#schemas/config/pistis-config.ts";
import { Refusal } from "#shared/errors/errors.ts";
import type { Model, Models } from "./model.ts";
import { scriptModel } from "./script/script-model.ts";

export function openModels({ models, limits }: Pick<PistisConfig, "models" | "limits">): Models {
  const opened = new Map<string, Promise<Model>>();
  return {
    get: (name) => {
      const model = opened.get(name) ?? openModel(name, models[name], limits);
      opened.set(name, model);
      return model;
    },
  };
}

async function openModel(
  name: string,
  config: ModelConfig | undefined,
  limits: PistisConfig["limits"],
): Promise<Model> {
  if (config === undefined && name !== SCRIPT_MODEL) {
    throw new Refusal("model_unknown", `There is no model "${name}" in pistis.json`, {
      next: `Add it under "models" and restart, or start a session with another model.`,
    });
  }
  if (config === undefined || config.api === "script") return scriptModel(name);
  const { providerModel } = await import("./provider/provider-model.ts");
  return providerModel(name, config, limits);
}
