// The requests about files. Those that change one run at most once per call id, like commands.

import type { AnswerOf, RequestOf } from "#schemas/wire/message.ts";
import { failureOf } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import type { Operation, Operations, RequestContext } from "../channel/operation.ts";
import { isDiskFull } from "../commands/spool.ts";
import type { CallRecords, Ending } from "../state/call-records.ts";
import { fileEdit } from "./edit.ts";
import { fileList } from "./list.ts";
import { fileRead } from "./read.ts";
import { fileSearch, type SearchContext } from "./search.ts";
import { fileWrite } from "./write.ts";

type FileOps = "fileRead" | "fileWrite" | "fileEdit" | "fileList" | "fileSearch";
type ChangingOps = "fileWrite" | "fileEdit";

export type FileContext = SearchContext & Readonly<{ records: CallRecords; openFileCalls: Map<string, Promise<void>> }>;

export function fileOperations(context: FileContext): Pick<Operations, FileOps> {
  const { workspace } = context;
  return {
    fileRead: fileRead(workspace),
    fileWrite: atMostOnce(context, fileWrite(workspace)),
    fileEdit: atMostOnce(context, fileEdit(workspace)),
    fileList: fileList(workspace),
    fileSearch: fileSearch(context),
  };
}

/** The record stands before the operation begins, and its end is recorded before the answer leaves. */
function atMostOnce<O extends ChangingOps>({ records, openFileCalls }: FileContext, operation: Operation<O>) {
  return (request: RequestOf<O>, channel: RequestContext): Promise<AnswerOf<O>> => {
    const { callId } = request;
    records.begin(callId, { is: "file", at: new Date().toISOString() });
    step("pistisd.file.recorded");
    const answer = operation(request, channel).then(
      (done) => {
        keep(records, callId, { is: "done" });
        step("pistisd.file.kept");
        return done;
      },
      (error: unknown) => {
        const { code, message } = failureOf(error);
        keep(records, callId, { is: "failed", failure: { code, message: message.slice(0, 4_000) } });
        throw error;
      },
    );
    const settled = () => void openFileCalls.delete(callId);
    openFileCalls.set(callId, answer.then(settled, settled));
    return answer;
  };
}

/** On a full disk the caller still gets the answer; only after a crash nobody can tell it again. */
function keep(records: CallRecords, callId: string, ending: Ending): void {
  try {
    records.end(callId, ending);
  } catch (error) {
    if (!isDiskFull(error)) throw error;
  }
}
