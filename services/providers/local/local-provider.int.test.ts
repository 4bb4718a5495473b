import { describeProvider } from "../provider.contract.ts";
import { openShellGuests } from "./testing/shell-guest.ts";

describeProvider("local", () => openShellGuests());
