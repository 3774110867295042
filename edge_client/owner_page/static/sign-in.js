// A link from the device has its token behind #, which no server sees: sign in with it, and leave no trace of it.
const token = location.hash.slice(1);
if (token) {
  history.replaceState(null, "", location.pathname);
  const field = document.getElementById("token");
  field.value = token;
  field.form.submit();
}
