#!/usr/bin/python3
"""Opens an address in a headless Chromium and prints the milliseconds until `condition`, a
JavaScript expression, is true.

    open_page.py ADDRESS CONDITION SECONDS

Needs Debian's chromium, chromium-driver and python3-selenium; exits with 77 without them."""

import json
import shutil
import sys
import time

try:
    from selenium import webdriver
    from selenium.common.exceptions import TimeoutException, WebDriverException
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
except ImportError:
    sys.exit(77)


def main(address: str, condition: str, seconds: float) -> int:
    driver = shutil.which("chromedriver")
    if driver is None:
        return 77
    options = Options()
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000"):
        options.add_argument(word)
    options.page_load_strategy = "none"
    with webdriver.Chrome(service=Service(driver), options=options) as browser:
        browser.set_script_timeout(seconds)
        start = time.monotonic()
        browser.get(address)
        while time.monotonic() - start < seconds:
            try:
                if browser.execute_script(f"return location.href !== 'data:,' && !!({condition})"):
                    print(json.dumps({"milliseconds": (time.monotonic() - start) * 1000}))
                    return 0
            except (TimeoutException, WebDriverException):
                pass  # the page has not loaded, or blocks
            time.sleep(0.02)
    print(f"not drawn after {seconds:.0f} s", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
