import { describeOneLife, describeProvider } from "../provider.contract.ts";
import { DEBIAN, MUSL, openDockerGuests } from "./testing/docker-guests.ts";

describe("on Docker", function () {
  this.timeout(120_000);
  describeProvider(`docker, ${DEBIAN}`, () => openDockerGuests({ image: DEBIAN }));
  // Another base changes which files, users and programs there are, and no call of the engine.
  describeOneLife(`docker, ${MUSL}`, () => openDockerGuests({ image: MUSL }));
});
