// Takes the secret of a link such as http://host/sign-in/once#aur_once_..., and sends it unless another site led here.
"use strict";

{
  const form = document.querySelector("main form");
  form.elements.token.value = location.hash.slice(1);
  history.replaceState(null, "", location.pathname);
  if ("send" in form.dataset) form.requestSubmit();
  else form.querySelector("button").focus();
}
