import { join } from "node:path";

/** What `npm run build:pistisd` makes, and what the local provider binds into its sandboxes. */
export const PISTISD_FOLDER = join(import.meta.dirname, "..", "..", "..", "dist", "pistisd");
export const PISTISD_FILES = ["pistisd", "pistisd-musl", "pi-env", "pistisd-entry"] as const;
