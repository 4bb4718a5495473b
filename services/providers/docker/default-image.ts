/** Made by infra/images: Debian with git. */
export const DEFAULT_IMAGE = "pistis/sandbox";
