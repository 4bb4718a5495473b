// What the command line may do with the projector's work.
export { checkReadModels, type ProjectionCheck } from "#services/projector/check.ts";
export { rebuildReadModels } from "#services/projector/rebuild.ts";
export { refillMirror } from "#services/projector/refill.ts";
