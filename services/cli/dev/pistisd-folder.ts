export { PISTISD_FOLDER } from "#services/providers/pistisd-folder.ts";

export const PISTISD_FILES = ["pistisd", "pistisd-musl", "pi-env", "pistisd-entry"] as const;
