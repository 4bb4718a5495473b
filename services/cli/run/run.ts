// `pistis run`: one task, watched until its turn is over.
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { Command } from "commander";
import { SCRIPT_MODEL } from "#schemas/config/pistis-config.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { newId } from "#shared/ids/ids.ts";
import { createSession, endSession, type Server } from "../client/api.ts";
import { findServer } from "../client/find-server.ts";
import { type Context, folderOf, STATE_OPTION } from "../context.ts";
import type { StateFolder } from "../state/state-folder.ts";
import { plural } from "../terminal/quantities.ts";
import { followTurn } from "./follow-turn.ts";
import { reportResult } from "./report-result.ts";
import { isUrl, repositoryAt, uncommittedFiles } from "./repository.ts";
import { newTranscript } from "./transcript.ts";

type Options = {
  repo?: string;
  ref?: string;
  model?: string;
  script?: string;
  end?: boolean;
  keep?: boolean;
  state?: string;
  config?: string;
};

const EXAMPLES = `
Examples:
  $ pistis run "fix the failing test" --repo .
  $ pistis run '$ npm test' --model script --repo https://github.com/owner/name --ref main
  $ pistis run --script steps.md --repo . --end

Ctrl-C interrupts the turn; a second one leaves it running.
Exit code: 0 turn completed, 1 failed or stopped by a limit, 130 interrupted.`;

export function addRun(program: Command, context: Context, finish: (exitCode: number) => void): void {
  program
    .command("run")
    .summary("run one task and watch it")
    .description("Opens a session, gives it the task, and shows what the agent does until its turn is over.")
    .argument("[task]", "what the agent is to do")
    .option("--repo <path or url>", "repository that is copied into the sandbox, at /workspace/repo")
    .option("--ref <ref>", "branch, tag or commit of it (default: its default branch)")
    .option("--model <name>", "a model of pistis.json, or script (default: defaultModel of pistis.json)")
    .option("--script <file>", "take the task from a file, with the model script")
    .option("--end", "end the session afterwards: its sandbox is deleted for good")
    .option("--keep", "where a server was started for this run: leave it running until Ctrl-C")
    .option("--config <file>", "pistis.json for a server that is started for this run")
    .option(...STATE_OPTION)
    .addHelpText("after", EXAMPLES)
    .action(async (task: string | undefined, options: Options) => finish(await runTask(context, task, options)));
}

async function runTask(context: Context, task: string | undefined, options: Options): Promise<number> {
  const text = await taskText(context, task, options);
  const repository = await repositoryOf(context, options);
  const opened = await openServer(context, folderOf(context, options.state), options);
  try {
    const model = options.script === undefined ? options.model : (options.model ?? SCRIPT_MODEL);
    const messageId = newId("message");
    const created = await createSession(opened.server, {
      message: { text, messageId },
      ...(model === undefined ? {} : { model }),
      ...(repository === undefined ? {} : { repository }),
    });
    return await watch(context, opened.server, { session: created.session.id, messageId, end: options.end ?? false });
  } finally {
    await opened.close();
  }
}

async function watch(
  context: Context,
  server: Server,
  { session, messageId, end }: { session: string; messageId: string; end: boolean },
): Promise<number> {
  const { terminal } = context;
  terminal.out(`${terminal.paint("dim", `session ${session}`)}\n`);
  const result = await followTurn(context, newTranscript(terminal), { server, session, messageId, start: 0 });
  if (end && result.status !== "left") {
    await endSession(server, session);
    terminal.out(terminal.paint("dim", "session ended, its sandbox is deleted\n"));
  }
  return reportResult(context, result, session);
}

async function taskText(context: Context, task: string | undefined, { script }: Options): Promise<string> {
  if (task !== undefined && script !== undefined) {
    throw new Refusal("two_tasks", "Both a task and --script were given", { next: "Give one of them" });
  }
  if (script !== undefined) {
    return readFile(resolve(context.cwd, script), "utf8").catch((cause: unknown) => {
      throw new Refusal("script_missing", `${script} cannot be read`, { cause, next: "Check the path after --script" });
    });
  }
  if (task !== undefined && task.trim() !== "") return task;
  throw new Refusal("no_task", "There is no task", { next: 'For example: pistis run "fix the failing test" --repo .' });
}

async function repositoryOf(
  context: Context,
  { repo, ref }: Options,
): Promise<{ url: string; ref?: string } | undefined> {
  if (repo === undefined) {
    if (ref === undefined) return undefined;
    throw new Refusal("ref_without_repo", "--ref needs --repo", { next: "Add --repo with a path or URL" });
  }
  const url = isUrl(repo) ? repo : await repositoryAt(repo, context.cwd);
  const changed = isUrl(repo) ? 0 : await uncommittedFiles(url);
  if (changed > 0) {
    context.terminal.err(`note: ${plural(changed, "file")} with uncommitted changes: the agent gets the last commit\n`);
  }
  return ref === undefined ? { url } : { url, ref };
}

/** The server that runs already, else one of our own for as long as this run takes. */
async function openServer(
  context: Context,
  folder: StateFolder,
  options: Options,
): Promise<{ server: Server; close: () => Promise<void> }> {
  const running = await findServer(folder, context.environment);
  if (running !== undefined) return { server: running, close: async () => undefined };
  context.terminal.err(`no server runs on ${folder.path}: starting one for this run\n`);
  const { startForRun } = await import("../dev/start-for-run.ts");
  return startForRun(context, folder, { config: options.config, keep: options.keep ?? false });
}
