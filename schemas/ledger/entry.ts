import type { z } from "zod";

/** One row of the catalogue. `older` maps each earlier version to its frozen reader, lifted to the newest form. */
export type CatalogueEntry<Writer extends string, Schema extends z.ZodType> = Readonly<{
  writer: Writer;
  version: number;
  schema: Schema;
  summary: string;
  older: { [version: number]: (data: unknown) => unknown };
}>;

export function entriesOf<Writer extends string>(writer: Writer) {
  return function entry<Schema extends z.ZodType>(summary: string, schema: Schema): CatalogueEntry<Writer, Schema> {
    return { writer, version: 1, schema, summary, older: {} };
  };
}

/** The union `{type, data}` over a table of catalogue entries. */
export type EventsOf<Entries extends { [type: string]: { schema: z.ZodType } }> = {
  [Type in keyof Entries & string]: { type: Type; data: z.output<Entries[Type]["schema"]> };
}[keyof Entries & string];
