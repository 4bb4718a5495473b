import { describeProvider } from "../provider.contract.ts";
import { DEBIAN, MUSL, openDockerGuests } from "./testing/docker-guests.ts";

describe("on Docker", function () {
  this.timeout(120_000);
  describeProvider(`docker, ${DEBIAN}`, () => openDockerGuests({ image: DEBIAN }));
  describeProvider(`docker, ${MUSL}`, () => openDockerGuests({ image: MUSL }));
});
