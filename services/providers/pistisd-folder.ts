import { join } from "node:path";

/** What `npm run build:pistisd` makes, and what the local provider binds into its sandboxes. */
export const PISTISD_FOLDER = join(import.meta.dirname, "..", "..", "dist", "pistisd");
