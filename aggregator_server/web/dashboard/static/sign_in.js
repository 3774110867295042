// Takes the token of a link such as http://host/#token=aur_..., as the server prints it; the person signs in.
"use strict";

{
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    history.replaceState(null, "", location.pathname + location.search); // no token stays in the address
    document.getElementById("token").value = given;
    document.querySelector("main form button").focus();
  }
}
