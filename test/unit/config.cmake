# A locale with a decimal comma, for the test that parsing does not depend on the program's locale.
find_program(CISTERN_LOCALEDEF localedef REQUIRED)
set(locale_folder "${PROJECT_BINARY_DIR}/test/locale")
add_custom_command(OUTPUT "${locale_folder}/de_DE.utf8/LC_NUMERIC"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${locale_folder}"
    COMMAND "${CISTERN_LOCALEDEF}" -i de_DE -f UTF-8 "${locale_folder}/de_DE.utf8"
    COMMENT "" VERBATIM)
add_custom_target(cistern_comma_locale ALL DEPENDS "${locale_folder}/de_DE.utf8/LC_NUMERIC")

cistern_catch_test(unit_config
    SOURCES
        config_dali.cpp
        config_log.cpp
        config_own.cpp
        config_pattern.cpp
        config_settings.cpp
        config_text.cpp
    LIBS cistern_config
    PROPERTIES ENVIRONMENT "CISTERN_TEST_LOCALES=${locale_folder}")
